"""The SQL of each engine: one file a database, Spark among them."""
