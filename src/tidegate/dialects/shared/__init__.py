"""Code shared by the dialects: statements that every database runs, and names of types."""
