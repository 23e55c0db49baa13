"""The long-running service, and its dashboard."""
