"""What a plugin's tests need: a source in memory, loads into a local lake, and the suites that plugins must pass.

Needs pytest. Nothing else of Tidegate imports this package.
"""

import pytest

pytest.register_assert_rewrite("tidegate.testing.contracts")

from tidegate.testing.contracts import (  # noqa: E402 - asserts are rewritten in what is imported later
    CheckContract,
    FormatBench,
    FormatContract,
    SourceContract,
    StrategyContract,
    WriterContract,
)
from tidegate.testing.project import Crash, LocalProject, crash_at  # noqa: E402 - as above
from tidegate.testing.registry import MemoryRegistry  # noqa: E402 - as above
from tidegate.testing.remains import Remains  # noqa: E402 - as above
from tidegate.testing.session import spark_session  # noqa: E402 - as above
from tidegate.testing.source import Clock, MemorySource  # noqa: E402 - as above

__all__ = [
    "CheckContract",
    "Clock",
    "Crash",
    "FormatBench",
    "FormatContract",
    "LocalProject",
    "MemoryRegistry",
    "MemorySource",
    "Remains",
    "SourceContract",
    "StrategyContract",
    "WriterContract",
    "crash_at",
    "spark_session",
]
