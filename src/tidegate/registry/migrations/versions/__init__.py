"""One file a schema version, oldest first; a released file never changes."""
