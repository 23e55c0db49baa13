"""Rules and column contracts applied to a batch."""
