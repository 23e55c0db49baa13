"""Streams at work: assembled, planned, run, verified, recovered."""
