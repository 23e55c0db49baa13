"""Streams, positions, plans, runs, tasks and leases in SQLite or PostgreSQL.

`store.Registry` writes, `reader.RegistryReader` only answers.
"""
