"""Files of five formats: listing, columns, and reading with Spark."""
