"""Files as a source: folders, local or in an object store."""

from tidegate.sources.files.source import Files

__all__ = ["Files"]
