"""Streams, positions, plans, runs, tasks and leases in SQLite or PostgreSQL; begin with `registry.store.Registry`."""
