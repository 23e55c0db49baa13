"""Files of five formats: where they are, what their columns are, how Spark reads them."""
