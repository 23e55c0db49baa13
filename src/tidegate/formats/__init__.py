"""How tables are kept: one file a format."""
