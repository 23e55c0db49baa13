"""Table formats, one folder each."""
