"""Incremental loading into lakehouse tables: finds what changed, loads only that, exactly once, and proves it.

The public names are imported on first use. Importing this package never imports pyspark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.api import Project
    from tidegate.core.outcome import Outcome
    from tidegate.core.report import RunReport
    from tidegate.errors import TidegateError

    __version__: str

__all__ = ["Outcome", "Project", "RunReport", "TidegateError", "__version__"]

_HOMES = {
    "Outcome": "tidegate.core.outcome",
    "Project": "tidegate.api",
    "RunReport": "tidegate.core.report",
    "TidegateError": "tidegate.errors",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return str(importlib.import_module("tidegate.extras").version())
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
