"""The protocols of a check, and what happens to a load that fails one.

Messages never include values of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from tidegate.core.schema import Schema

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known besides the rows.

    Args:
        now: the time, aware.
        loads: rows that the last loads of the stream read, newest first.
    """

    now: datetime
    loads: Sequence[int] = ()


class Check(Protocol):
    """A check's own options; every kind is also a `RowCheck`, a `Lookup` or a `MeasuredCheck`."""

    kind: ClassVar[str]
    main: ClassVar[str]
    """The option that the short form gives: `{not_null: id}`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""

    def refuse(self, schema: Schema) -> None:
        """Refuses options that do not fit the columns. Raises ConfigError."""


@runtime_checkable
class RowCheck(Check, Protocol):
    """Decides for each single row whether it is valid."""

    def condition(self, schema: Schema) -> str:
        """Spark SQL that is false for a row that breaks the rule; true or NULL for a good one."""

    def reason(self) -> str:
        """What is wrong with a row for which it is false; no value of a row."""


@runtime_checkable
class Lookup(Check, Protocol):
    """Decides for each row whether its values exist in other rows; a row with a NULL among them is valid."""

    def there(self, session: SparkSession) -> DataFrame:
        """Rows: the values that are there: the check's columns, under the names that they have in the batch."""

    def reason(self) -> str:
        """What is wrong with a row whose values are not there; no value of a row."""


@runtime_checkable
class MeasuredCheck(Check, Protocol):
    """Evaluates rows as a whole, by aggregates."""

    @property
    def scope(self) -> Scope:
        """The rows that it measures."""

    def ask(self, schema: Schema) -> tuple[str, ...]:
        """Spark SQL aggregates, one call each, that `FILTER (WHERE …)` may follow."""

    def judge(self, answers: Sequence[Any], known: Known) -> str | None:
        """What is wrong, without a value of a row; None for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check of one stream, and what to do with a load that fails it.

    Args:
        name: what reports call it; unique within the stream.
        where: Spark SQL; only rows for which it is true are looked at. None for all.
    """

    check: Check
    name: str
    on_fail: OnFail = OnFail.STOP
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
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
        found = f"{self.rows:,} rows: " if self.rows is not None else ""
        return f"check {self.rule}: {found}{self.reason}"


def rule_name(kind: str, value: object) -> str:
    """The name of a rule that states none: its kind and its main option.

    Example:
        >>> rule_name("not_null", ["id", "code"]), rule_name("expression", "amount > 0")
        ('not_null(id, code)', 'expression(amount > 0)')
    """
    if value is None:
        return kind
    inside = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{kind}({inside if len(inside) <= LONGEST else inside[: LONGEST - 1] + '…'})"
