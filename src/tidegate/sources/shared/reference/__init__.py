"""A second reader of files, without Spark, so that verification does not repeat the errors of the first.

PyArrow reads CSV, Parquet and ORC, Python's own parser reads JSON, and fastavro reads Avro.
"""

from tidegate.sources.shared.reference.answers import Answers
from tidegate.sources.shared.reference.rows import FileRows

__all__ = ["Answers", "FileRows"]
