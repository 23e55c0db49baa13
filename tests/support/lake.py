"""A Spark session and lakes for tests."""
