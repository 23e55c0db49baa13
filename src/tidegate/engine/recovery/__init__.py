"""Where a stream stands after whatever happened before."""
