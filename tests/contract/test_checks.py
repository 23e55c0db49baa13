"""What every check owes a load: one suite for all that are there, and the mistakes that it has to find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tidegate import plugins
from tidegate.checks.accepted_values import AcceptedValues
from tidegate.checks.expression import Expression
from tidegate.checks.freshness import Freshness
from tidegate.checks.not_null import NotNull
from tidegate.checks.range import Range
from tidegate.checks.references import References
from tidegate.checks.row_count import RowCount
from tidegate.checks.unique import Unique
from tidegate.core.ids import Target
from tidegate.core.policies.rules import Check, Scope
from tidegate.core.ports.format import TableState
from tidegate.core.schema import TEXT, Column, Schema
from tidegate.testing import CheckContract
from tidegate.testing.contracts.check import NOW

pytestmark = pytest.mark.spark


@dataclass(frozen=True, kw_only=True)
class Case:
    """A check, what breaks it in plain Python, and options that it must refuse."""

    check: Check
    broken: Callable[[Sequence[Mapping[str, Any]]], Any]
    impossible: Sequence[Mapping[str, Any]]


def rows_where(breaks: Callable[[Mapping[str, Any]], bool]) -> Callable[[Sequence[Mapping[str, Any]]], Any]:
    return lambda rows: [row for row in rows if breaks(row)]


class States:
    """A lake of one table with one column."""

    def state(self, target: Target, _uid: str) -> TableState:
        exists = target.table == "states"
        columns = Schema(columns=(Column(name="state", type=TEXT),))
        return TableState(exists=exists, schema=columns if exists else None)

    def read(self, session: Any, _target: Target, _snapshot: str | None) -> Any:
        return session.sql("SELECT * FROM VALUES ('open'), ('paid'), ('paid'), (CAST(NULL AS string)) AS t(state)")


LAKES: dict[str, Any] = {"other": States()}


def stale(rows: Sequence[Mapping[str, Any]]) -> bool:
    moments = [row["changed"].replace(tzinfo=UTC) for row in rows if row["changed"] is not None]
    return bool(rows) and (not moments or NOW - max(moments) > timedelta(hours=1))


def doubled(*names: str) -> Callable[[Sequence[Mapping[str, Any]]], bool]:
    def found(rows: Sequence[Mapping[str, Any]]) -> bool:
        keys = [tuple(row[name] for name in names) for row in rows]
        return any(number > 1 for key, number in Counter(keys).items() if None not in key)

    return found


CASES = [
    Case(
        check=NotNull(columns=("code", "day")),
        broken=rows_where(lambda row: row["code"] is None or row["day"] is None),
        impossible=[{"columns": ()}, {"columns": ("code", "cod")}],
    ),
    Case(check=Unique(columns=("code",)), broken=doubled("code"), impossible=[{"columns": ()}, {"columns": ("Code",)}]),
    Case(check=Unique(columns=("day", "changed")), broken=doubled("day", "changed"), impossible=[{"columns": ()}]),
    Case(
        check=AcceptedValues(column="code", values=("open", "paid", 'it\'s \\ "paid"')),
        broken=rows_where(lambda row: row["code"] not in (None, "open", "paid", 'it\'s \\ "paid"')),
        impossible=[{"values": ()}, {"values": (1,)}, {"column": "amount"}],
    ),
    Case(
        check=Range(column="amount", min=0, max="10.00"),
        broken=rows_where(lambda row: row["amount"] is not None and not 0 <= row["amount"] <= 10),
        impossible=[{"min": None, "max": None}, {"min": "low"}, {"min": 11}, {"column": "day"}, {"min": "1e-31"}],
    ),
    Case(
        check=Range(column="day", min="2025-01-01", max="2025-01-03", inclusive=False),
        broken=rows_where(lambda row: row["day"] is not None and not date(2025, 1, 1) < row["day"] < date(2025, 1, 3)),
        impossible=[{"min": 5}, {"max": "2025-02-30"}],
    ),
    Case(
        check=Expression(sql="amount < 10 OR code = 'open'"),
        broken=rows_where(
            lambda row: (
                row["code"] != "open"
                and row["code"] is not None
                and row["amount"] is not None
                and row["amount"] >= Decimal(10)
            )
        ),
        impossible=[{"sql": "amount <"}, {"sql": "amonut < 10"}],
    ),
    Case(
        check=Freshness(column="changed", max_age=timedelta(hours=1)),
        broken=stale,
        impossible=[{"column": "code"}, {"column": "amount"}, {"max_age": timedelta(hours=-1)}],
    ),
    Case(
        check=RowCount(min=2, max=8),
        broken=lambda rows: not 2 <= len(rows) <= 8,
        impossible=[{"min": None, "max": None}, {"min": 9}, {"change": -0.1}, {"loads": 2}, {"min": -1}],
    ),
    Case(check=RowCount(max=8, of=Scope.TABLE), broken=lambda rows: len(rows) > 8, impossible=[{"change": 0.5}]),
    Case(
        check=References(columns=("code",), to="other.shop.states", field=("state",), lakes=LAKES),
        broken=rows_where(lambda row: row["code"] not in (None, "open", "paid")),
        impossible=[
            {"to": "other.states"},
            {"to": "elsewhere.shop.states"},
            {"to": "other.shop.nothing"},
            {"field": ("status",)},
            {"field": ("state", "state")},
            {"columns": (), "field": ()},
            {"target": Target(lake="other", namespace=("shop",), table="states")},
        ],
    ),
]


def test_every_check_is_here() -> None:
    assert {case.check.kind for case in CASES} == set(plugins.names("checks"))


QUICK = {NotNull, Unique, Range, References}
"""Of these one case is always run: each way to judge, and numbers."""


def params() -> Iterator[Any]:
    left = set(QUICK)
    for case in CASES:
        marks = () if type(case.check) in left else pytest.mark.slow
        left.discard(type(case.check))
        yield pytest.param(case, id=repr(case.check), marks=marks)


class TestChecks(CheckContract):
    @pytest.fixture(params=params())
    def case(self, request):
        return request.param

    @pytest.fixture
    def check(self, case):
        return case.check

    @pytest.fixture
    def broken(self, case):
        return case.broken

    @pytest.fixture
    def impossible(self, case):
        return case.impossible


@dataclass(frozen=True, slots=True, kw_only=True)
class Positive:
    """The column holds no number below zero; NULL is accepted.

    Args:
        column: the column to check.
    """

    kind = "positive"
    main = "column"
    judges = NotNull.judges

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def refuse(self, schema: Schema) -> None:
        Range(column=self.column, min=0).refuse(schema)

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:  # noqa: ARG002 - the same for every type
        return {self.columns: f"{self.column} >= 0"}

    def reason(self) -> str:
        return f"{self.column} is below zero"


def below_zero(rows: Sequence[Mapping[str, Any]]) -> Any:
    return [row for row in rows if row["amount"] is not None and row["amount"] < 0]


class BoundLost(Positive):
    __doc__ = Positive.__doc__

    def conditions(self, _schema: Schema) -> Mapping[tuple[str, ...], str]:
        return {self.columns: f"{self.column} > 0"}


class NullRefused(Positive):
    __doc__ = Positive.__doc__

    def conditions(self, _schema: Schema) -> Mapping[tuple[str, ...], str]:
        return {self.columns: f"coalesce({self.column}, -1) >= 0"}


class OtherColumn(Positive):
    __doc__ = Positive.__doc__

    def conditions(self, _schema: Schema) -> Mapping[tuple[str, ...], str]:
        return {self.columns: f"{self.column} >= 0 OR code = 'nothing'"}


class SaysNothing(Positive):
    __doc__ = Positive.__doc__

    def reason(self) -> str:
        return ""


class RefusesNothing(Positive):
    __doc__ = Positive.__doc__

    def refuse(self, schema: Schema) -> None:
        pass


class NamesNothing(Positive):
    __doc__ = Positive.__doc__

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undescribed(Positive):
    pass


class CountsNull(Unique):
    __doc__ = Unique.__doc__

    def ask(self, _schema: Schema) -> tuple[str, ...]:
        return "count(*)", f"count(DISTINCT {self.columns[0]})"


class CountsTwoCalls(Unique):
    __doc__ = Unique.__doc__

    def ask(self, _schema: Schema) -> tuple[str, ...]:
        name = self.columns[0]
        return f"count({name}) - count(DISTINCT {name})", "0"


SUITE = CheckContract()


def test_a_row_that_is_not_present_is_none_to_refer_to(spark) -> None:
    conditions = ("state <> 'paid'", "no_such_column IS NULL")
    check = References(
        columns=("code",), to="other.shop.states", field=("state",), lakes=LAKES, present=lambda _: conditions
    )
    assert [row.code for row in check.there(spark).collect()] == ["open"]


def test_the_suite_takes_the_check_that_is_right(spark, tmp_path) -> None:
    check = Positive(column="amount")
    SUITE.test_it_describes_itself_and_its_options(check)
    SUITE.test_options_that_cannot_be_are_refused(check, [{"column": "code"}])
    SUITE.test_it_finds_what_the_model_finds(check, below_zero, spark, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (BoundLost, "what the check finds in them"),
        (NullRefused, "what the check finds in them"),
        (OtherColumn, "check_failed"),
        (SaysNothing, "a finding without a reason"),
    ],
)
def test_the_suite_finds_a_row_check_that_is_wrong(wrong, told, spark, tmp_path) -> None:
    with pytest.raises(AssertionError, match=told):
        SUITE.test_it_finds_what_the_model_finds(wrong(column="amount"), below_zero, spark, tmp_path)


@pytest.mark.parametrize(("wrong", "told"), [(CountsNull, "what the check finds in them"), (CountsTwoCalls, "code")])
def test_the_suite_finds_a_whole_check_that_is_wrong(wrong, told, spark, tmp_path) -> None:
    with pytest.raises(AssertionError, match=told):
        SUITE.test_it_finds_what_the_model_finds(wrong(columns=("code",)), doubled("code"), spark, tmp_path)


def test_the_suite_finds_what_is_neither_described_nor_refused() -> None:
    with pytest.raises(AssertionError):
        SUITE.test_it_describes_itself_and_its_options(Undescribed(column="amount"))
    with pytest.raises(pytest.fail.Exception):
        SUITE.test_options_that_cannot_be_are_refused(RefusesNothing(column="amount"), [{"column": "code"}])
    with pytest.raises(pytest.fail.Exception):
        SUITE.test_options_that_cannot_be_are_refused(NamesNothing(column="amount"), [{"column": "amonut"}])


def test_the_suite_finds_a_model_that_nothing_breaks(spark, tmp_path) -> None:
    with pytest.raises(AssertionError, match="no row of the suite breaks it"):
        SUITE.test_it_finds_what_the_model_finds(Range(column="id", min=-100), lambda _rows: [], spark, tmp_path)
