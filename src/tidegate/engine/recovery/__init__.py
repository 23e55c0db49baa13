"""Recovery after a crash, a manual change of position, or a restored source."""
