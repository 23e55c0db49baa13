"""The SQL of each engine: one file or folder per database, Spark among them."""
