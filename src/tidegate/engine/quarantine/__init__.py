"""Storage of quarantined rows."""
