"""Files of a folder, local or in an object store."""

from tidegate.sources.files.source import Files

__all__ = ["Files"]
