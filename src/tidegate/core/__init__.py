"""Values and protocols shared by all layers; no I/O, no pyspark, no database."""
