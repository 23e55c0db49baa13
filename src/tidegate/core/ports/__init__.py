"""The protocols that plugins implement, one file per kind of plugin."""
