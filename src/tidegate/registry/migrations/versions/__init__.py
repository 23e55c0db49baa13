"""Migrations, one file per schema version, oldest first; a released file never changes."""
