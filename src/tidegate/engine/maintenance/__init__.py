"""Table maintenance and rollback."""
