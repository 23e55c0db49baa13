"""Writers: what happens to rows in the table, one file or folder each."""
