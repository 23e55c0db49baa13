"""What the sources share: a probe over a DataFrame, and readers of files that use no Spark."""
