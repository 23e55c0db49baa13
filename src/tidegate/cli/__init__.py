"""The command-line program `tidegate`."""
