"""Values and protocols that join the open sets; no I/O, no pyspark, no database."""
