"""What the dialects share: statements that every database is asked, and how types are named."""
