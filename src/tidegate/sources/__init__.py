"""Sources of rows, one file or folder each."""
