"""Suites for people who write plugins."""
