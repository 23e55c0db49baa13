"""What the sources `http` and `dlt` share: answers of an API become Parquet files, then read like any others."""
