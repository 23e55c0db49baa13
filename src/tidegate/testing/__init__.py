"""What a plugin's tests need: a source, a format and a registry in memory, and the suites that plugins must pass.

Needs pytest. Nothing else of Tidegate imports this package.
"""

import pytest

pytest.register_assert_rewrite("tidegate.testing.contracts")

from tidegate.testing.contracts import (  # noqa: E402 - asserts are rewritten in what is imported later
    CheckContract,
    FormatBench,
    FormatContract,
    MemoryBench,
    SourceContract,
    StrategyContract,
    WriterContract,
)
from tidegate.testing.format import MemoryFormat  # noqa: E402 - as above
from tidegate.testing.project import Crash, MemoryProject, crash_at, load  # noqa: E402 - as above
from tidegate.testing.registry import MemoryRegistry  # noqa: E402 - as above
from tidegate.testing.session import spark_session  # noqa: E402 - as above
from tidegate.testing.source import Clock, MemorySource  # noqa: E402 - as above
from tidegate.testing.tables import Seen  # noqa: E402 - as above

__all__ = [
    "CheckContract",
    "Clock",
    "Crash",
    "FormatBench",
    "FormatContract",
    "MemoryBench",
    "MemoryFormat",
    "MemoryProject",
    "MemoryRegistry",
    "MemorySource",
    "Seen",
    "SourceContract",
    "StrategyContract",
    "WriterContract",
    "crash_at",
    "load",
    "spark_session",
]
