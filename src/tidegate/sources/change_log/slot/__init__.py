"""Logs of changes in a replication slot of PostgreSQL."""
