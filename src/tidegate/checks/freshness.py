"""The check `freshness`: the newest row of a load is not too old.

Timestamps without a time zone are read as UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

from tidegate.core.display import short_duration
from tidegate.core.policies.rules import CheckContext, Judges, Scope
from tidegate.core.schema import Kind, Schema
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError
from tidegate.spark.sql import quote

TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The newest value of a column in a load is not too old.

    A run with nothing to load skips the check; `tidegate status` shows how far behind a stream is.

    Args:
        column: a timestamp column, in UTC if it has no zone, or a date column, which counts as its midnight.
        max_age: how old the newest row may be.
    """

    kind: ClassVar[str] = "freshness"
    main: ClassVar[str] = "column"
    judges: ClassVar[Literal[Judges.AGGREGATE]] = Judges.AGGREGATE
    scope: ClassVar[Scope] = Scope.LOAD

    column: str
    max_age: timedelta

    def __post_init__(self) -> None:
        if self.max_age < timedelta(0):
            raise ConfigError(f"freshness: `max_age:` is {self.max_age}, it must not be negative")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def refuse(self, schema: Schema) -> None:
        found = schema.find(self.column)
        if found is not None and found.type.kind not in TIMES:
            raise ConfigError(
                f"freshness: column {self.column!r} has the type {found.type}; it must be a timestamp or a date",
                column=self.column,
            )

    def ask(self, schema: Schema) -> tuple[str, ...]:
        """The rows, and the canonical text of the greatest value."""
        texts = [Spark().text_of(quote(each.name), each.type) for each in schema if each.name == self.column]
        return "count(*)", f"max({texts[0]})"

    def judge(self, answers: Sequence[Any], known: CheckContext) -> str | None:
        """How old the newest row is."""
        rows, newest = answers
        if not rows:
            return None
        if newest is None:
            return f"no row has a value in {self.column}"
        try:
            age = known.now - datetime.fromisoformat(newest).replace(tzinfo=UTC)
        except ValueError:
            return None  # of a year with five digits: nothing is fresher
        if age <= self.max_age:
            return None
        return (
            f"the newest {self.column} is {short_duration(age)} old; at most {short_duration(self.max_age)} is expected"
        )
