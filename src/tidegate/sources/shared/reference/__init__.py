"""Reads files without Spark, so that a verification does not repeat the mistakes of the reader that loaded them.

PyArrow reads CSV, Parquet and ORC, Python's own parser reads JSON, fastavro reads Avro.
"""

from tidegate.sources.shared.reference.answers import Answers
from tidegate.sources.shared.reference.rows import FileRows

__all__ = ["Answers", "FileRows"]
