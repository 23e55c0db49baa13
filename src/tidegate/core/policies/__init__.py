"""Rules that a stream states, as pure decisions."""
