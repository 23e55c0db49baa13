"""Data quality checks, one file per kind, that a stream's `checks:` applies before rows are published."""
