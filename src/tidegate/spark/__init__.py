"""How Spark is reached, and what it is asked."""
