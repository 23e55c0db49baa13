"""Fixtures that every suite may ask for; each server starts on first use and ends with the session."""

pytest_plugins = ["support.postgres", "support.lake", "support.lake_servers", "support.object_store", "support.cluster"]
