"""Code shared by the table formats."""
