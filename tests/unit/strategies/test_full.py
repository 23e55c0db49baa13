"""Strategy `full`: what proves that the source is what was loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate.core.changes import SliceStats
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, DOUBLE, TEXT, Column, Schema
from tidegate.core.slices import Slice
from tidegate.strategies.full import Full

ID, NAME, AREA = (Column(name=name, type=kind) for name, kind in (("id", BIGINT), ("name", TEXT), ("area", DOUBLE)))


@dataclass(kw_only=True)
class Source:
    """What a probe says of a whole table."""

    now: str | None = None
    source: str = "sqlite:a"
    found: Fingerprint = field(default_factory=lambda: Fingerprint(rows=3, s0=1))
    columns: tuple[Column, ...] = (ID, NAME)
    own: str | None = None
    asked: list[str] = field(default_factory=list)
    restore: None = None

    def schema(self) -> Schema:
        return Schema(columns=self.columns)

    def identity(self) -> str:
        return self.source

    def version(self) -> str | None:
        return self.now

    def fingerprint(self, part: Slice) -> Fingerprint:
        self.asked.append(f"fingerprint of {part.label}")
        return self.found

    def own_fingerprint(self) -> str | None:
        self.asked.append("own fingerprint")
        return self.own

    def stats(self, part: Slice) -> SliceStats:
        self.asked.append(f"rows of {part.label}")
        return SliceStats(rows=3)


def loaded(source: Any) -> Position:
    """The position of a load of that source."""
    changes = Full().detect(source, None)
    digest = source.schema().digest
    return Position(
        sequence=1, load_id="a", kind="full", source=source.source, schema=digest, state=dict(changes.state)
    )


@pytest.mark.parametrize("now", [None, "v1"])
def test_a_source_that_stands_still_is_left_alone(now: str | None) -> None:
    source: Any = Source(now=now)
    since = loaded(source)
    source.asked.clear()
    assert Full().detect(source, since) is None
    assert source.asked == ([] if now else ["fingerprint of everything"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"found": Fingerprint(rows=3, s0=2)}, "the fingerprint of the source is not the loaded one"),
        ({"now": "v1"}, ""),
        ({"source": "sqlite:b"}, ""),
        ({"columns": (ID,)}, ""),
        ({"columns": (NAME, ID)}, ""),
        ({"columns": (ID, NAME, AREA)}, "no fingerprint covers area"),
    ],
)
def test_what_proves_nothing_is_read(change: dict[str, Any], reason: str) -> None:
    since = loaded(Source())
    changes = Full().detect(Source(**change), since)  # type: ignore[arg-type]
    assert changes.reason == "every row is read" + (f": {reason}" if reason else "")


def test_a_version_that_moved_is_read_without_a_fingerprint() -> None:
    source: Any = Source(now="v2")
    changes = Full().detect(source, loaded(Source(now="v1")))
    assert (changes.reason, dict(changes.state), source.asked) == (
        "every row is read: the version of the source is not the loaded one",
        {"version": "v2"},
        ["rows of everything"],
    )


def test_a_column_without_a_fingerprint_is_compared_by_the_sources_own_answers() -> None:
    source: Any = Source(columns=(ID, AREA), own="sqlite:3:1")
    since = loaded(source)
    source.asked.clear()
    assert Full().detect(source, since) is None
    assert source.asked == ["own fingerprint"]
    assert Full().unchanged(since).startswith("the source's own fingerprint is the loaded one")
    changes = Full().detect(Source(columns=(ID, AREA), own="sqlite:3:2"), since)  # type: ignore[arg-type]
    assert changes.reason == "every row is read: the source's own fingerprint is not the loaded one"
    assert changes.state == {"own_fingerprint": "sqlite:3:2"}


def test_a_column_without_any_exact_text_is_never_skipped() -> None:
    source: Any = Source(columns=(ID, AREA))
    since = loaded(source)
    assert (since.state, Full().detect(source, since) is None) == ({}, False)
    assert "fingerprint of everything" not in source.asked
