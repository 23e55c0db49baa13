"""How changes are found: one file a strategy."""
