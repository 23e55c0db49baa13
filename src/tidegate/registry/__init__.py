"""Streams, positions, plans, runs, tasks and leases in SQLite or PostgreSQL; see `registry.store.Registry`."""
