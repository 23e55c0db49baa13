"""The dashboard: pages over the registry, actions, and the same as JSON."""
