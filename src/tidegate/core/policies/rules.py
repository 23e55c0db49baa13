"""The protocols of a check, and what happens to a load that fails one.

Messages never include values of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from tidegate.core.display import counted
from tidegate.core.ids import Target
from tidegate.core.schema import Schema
from tidegate.core.secret_names import without_logins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LONGEST = 80


class OnFail(StrEnum):
    """What to do with a load whose rows fail a check."""

    STOP = "stop"
    QUARANTINE = "quarantine"
    WARN = "warn"


class Scope(StrEnum):
    """What a measured check looks at: the rows of one load, or the whole table as the load leaves it."""

    LOAD = "load"
    TABLE = "table"


class Judges(StrEnum):
    """What a check decides about."""

    ROW = "row"
    """Each row by itself: a `RowCheck`."""

    LOOKUP = "lookup"
    """Each row by other rows: a `Lookup`."""

    AGGREGATE = "aggregate"
    """Rows as a whole: a `MeasuredCheck`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What is known besides the rows.

    Args:
        now: the time, aware.
        loads: rows that the last loads of the stream read, newest first.
    """

    now: datetime
    loads: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTest:
    """What a check says of one column, in the words of dbt; checks that can be said so have `column_tests`.

    Args:
        name: `not_null`, `unique`, `accepted_values` or `relationships`.
        values: the accepted ones.
        to, field: the table and the column in which each value must exist.
    """

    name: str
    column: str
    values: tuple[bool | int | float | str, ...] = ()
    to: Target | None = None
    field: str | None = None


class _AnyCheck(Protocol):
    """What every check has: its options, and how it refuses them."""

    kind: ClassVar[str]
    main: ClassVar[str]
    """The option that the short form gives: `{not_null: id}`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""

    def refuse(self, schema: Schema) -> None:
        """Refuses options that do not fit the columns. Raises ConfigError."""


class RowCheck(_AnyCheck, Protocol):
    """Decides for each single row whether it is valid."""

    judges: ClassVar[Literal[Judges.ROW]]

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:
        """Spark SQL by the columns that it looks at, each false for a row that breaks the rule; else true or NULL.

        Of an event that does not carry one of these columns only the others decide.
        """

    def reason(self) -> str:
        """What is wrong with a row for which it is false; no value of a row."""


class Lookup(_AnyCheck, Protocol):
    """Decides for each row whether its values exist in other rows; a row with a NULL among them is valid."""

    judges: ClassVar[Literal[Judges.LOOKUP]]

    def there(self, session: SparkSession) -> DataFrame:
        """Rows: the values that are there: the check's columns, under the names that they have in the batch."""

    def reason(self) -> str:
        """What is wrong with a row whose values are not there; no value of a row."""


class MeasuredCheck(_AnyCheck, Protocol):
    """Evaluates rows as a whole, by aggregates."""

    judges: ClassVar[Literal[Judges.AGGREGATE]]

    @property
    def scope(self) -> Scope:
        """The rows that it measures."""

    def ask(self, schema: Schema) -> tuple[str, ...]:
        """Spark SQL aggregates, one call each, that `FILTER (WHERE …)` may follow."""

    def judge(self, answers: Sequence[Any], known: CheckContext) -> str | None:
        """What is wrong, without a value of a row; None for nothing."""


Check = RowCheck | Lookup | MeasuredCheck
"""A check with its options; `judges` says which of the three it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check of one stream, and what to do with a load that fails it.

    Args:
        name: what reports call it; unique within the stream.
        where: Spark SQL; only rows for which it is true are looked at. None for all.
        redact: takes the project's secrets out of what is said of rows that fail; the check itself may hold some.
    """

    check: Check
    name: str
    on_fail: OnFail = OnFail.STOP
    where: str | None = None
    redact: Callable[[str], str] = field(default=without_logins, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleViolation:
    """A check that rows have failed.

    Args:
        rows: how many break it; None where it judges them as a whole.
    """

    rule: str
    columns: tuple[str, ...]
    on_fail: OnFail
    reason: str
    rows: int | None = None

    @property
    def sentence(self) -> str:
        """For people."""
        found = f"{counted(self.rows, 'row')}: " if self.rows is not None else ""
        return f"check {self.rule}: {found}{self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "rule": self.rule,
            "on_fail": self.on_fail.value,
            "columns": list(self.columns),
            "reason": self.reason,
            "rows": self.rows,
        }


def rule_name(kind: str, value: object, redact: Callable[[str], str] = without_logins) -> str:
    """The name of a rule that states none: its kind and its main option.

    Example:
        >>> rule_name("not_null", ["id", "code"]), rule_name("expression", "amount > 0")
        ('not_null(id, code)', 'expression(amount > 0)')
    """
    if value is None:
        return kind
    inside = redact(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))  # then cut
    return f"{kind}({inside if len(inside) <= LONGEST else inside[: LONGEST - 1] + '…'})"
