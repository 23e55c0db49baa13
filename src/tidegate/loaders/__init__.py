"""Standalone loader classes that need only a Spark session."""

from tidegate.loaders._applying import LoadResult
from tidegate.loaders.cdc import CDCLoader
from tidegate.loaders.cursors import SequenceBasedLoader, TimestampBasedLoader
from tidegate.loaders.delta_tables import DeltaCDFLoader, DeltaTimestampLoader
from tidegate.loaders.differences import DeltaDiffLoader
from tidegate.loaders.incremental import IncrementalLoader

__all__ = [
    "CDCLoader",
    "DeltaCDFLoader",
    "DeltaDiffLoader",
    "DeltaTimestampLoader",
    "IncrementalLoader",
    "LoadResult",
    "SequenceBasedLoader",
    "TimestampBasedLoader",
]
