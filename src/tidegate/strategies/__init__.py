"""Strategies: how changes are detected, one file each."""
