"""Code shared by the sources: a probe over a DataFrame, and file readers without Spark."""
