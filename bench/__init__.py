"""Speed and memory against plain Spark, in one run on one machine; `python -m bench`."""
