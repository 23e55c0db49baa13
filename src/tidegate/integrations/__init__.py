"""Tidegate in other tools, a package for each; what a tool needs is an extra of that name."""
