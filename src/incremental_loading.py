"""The loader classes of Tidegate under the module name that scripts and jobs import: `incremental_loading`.

As a program it makes one load, see `tidegate.loaders.job`; alone, without arguments, it runs the self-test.
"""

from tidegate.loaders import (
    CDCLoader,
    DeltaCDFLoader,
    DeltaDiffLoader,
    DeltaTimestampLoader,
    IncrementalLoader,
    LoadResult,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from tidegate.loaders.job import main

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

if __name__ == "__main__":
    raise SystemExit(main())
