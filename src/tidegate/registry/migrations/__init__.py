"""Alembic migrations of the registry, run when a registry is opened."""
