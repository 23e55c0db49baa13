"""What a certification found: each case, by which versions, printable as JSON and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tidegate.core.server import Server

FORMAT = 1
"""Of the JSON document; a reader refuses another one."""


class State(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    NOT_SUPPORTED = "not supported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that was tried.

    Args:
        group: what it is about: `types`, `strategies`, …
        detail: what was found where it failed, or why it is not supported.
    """

    group: str
    name: str
    state: State
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The certificate of one server, if nothing failed.

    Args:
        dialect: the kind of database, as URLs name it.
        versions: of Tidegate, Spark, Python, the Python driver and the JDBC driver, by name.
        date: the day in UTC, in ISO 8601.
        vectors: by case of a type its declaration, and each value as SQL wrote it and as Python has it.
        left: what could not be removed; empty as a rule.
    """

    dialect: str
    server: Server
    versions: Mapping[str, str]
    date: str
    seconds: float
    cases: tuple[Case, ...]
    vectors: Mapping[str, Mapping[str, Any]]
    left: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        """How many cases ended in each state."""
        found = Counter(case.state for case in self.cases)
        return {state: found[state] for state in State}

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and something passed."""
        return not self.counts[State.FAILED] and self.counts[State.PASSED] > 0

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "format": FORMAT,
            "dialect": self.dialect,
            "server": asdict(self.server),
            "versions": dict(self.versions),
            "date": self.date,
            "seconds": round(self.seconds, 1),
            "counts": {str(state): count for state, count in self.counts.items()},
            "cases": [{**asdict(case), "state": str(case.state)} for case in self.cases],
            "vectors": {name: dict(vector) for name, vector in self.vectors.items()},
            "left": list(self.left),
        }

    def markdown(self) -> str:
        """The same for people."""
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        lines = [
            f"# {self.server.product} {self.server.version}",
            "",
            f"{self.date}: {counts}, in {self.seconds:.0f} s.",
            "",
            *_table(("part", "version"), sorted(self.versions.items())),
            "",
            *_table(("group", "case", "result", "detail"), [(c.group, c.name, c.state, c.detail) for c in self.cases]),
            "",
            *_table(("type", "declared", "values"), _vectors(self.vectors)),
        ]
        return "\n".join([*lines, *(f"\nLeft behind: {name}" for name in self.left)]) + "\n"


def _vectors(vectors: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (name, vector["declaration"], ", ".join(f"`{value}`" for _, value in vector["values"]))
        for name, vector in vectors.items()
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(heads), _line(["---"] * len(heads)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(str(cell).split()).replace('|', chr(92) + '|') for cell in cells)} |"
