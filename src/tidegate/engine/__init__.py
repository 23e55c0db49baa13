"""The engine: assembles, plans, runs, verifies and recovers streams."""
