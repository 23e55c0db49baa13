"""What each check asks and how it judges, without Spark."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.checks.accepted_values import AcceptedValues
from tidegate.checks.freshness import Freshness
from tidegate.checks.not_null import NotNull
from tidegate.checks.range import Range
from tidegate.checks.references import References
from tidegate.checks.row_count import RowCount
from tidegate.checks.unique import Unique
from tidegate.core.ids import Target
from tidegate.core.policies.rules import CheckContext, OnFail, Rule, RuleViolation, Scope
from tidegate.core.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Schema,
    decimal,
)
from tidegate.engine.quality.rules import refuse_rules, renamed, settle
from tidegate.errors import CheckFailed, ColumnMissing, ConfigError
from tidegate.spark.expressions import columns_of

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT),
        Column(name="small", type=INT),
        Column(name="amount", type=decimal(10, 2)),
        Column(name="ratio", type=DOUBLE),
        Column(name="it's", type=TEXT),
        Column(name="paid", type=BOOLEAN),
        Column(name="day", type=DATE),
        Column(name="at", type=TIMESTAMP),
        Column(name="seen", type=TIMESTAMPTZ),
    )
)


def rule(check, on_fail=OnFail.STOP, **more) -> Rule:
    return Rule(check=check, name=more.pop("name", check.kind), on_fail=on_fail, **more)


@pytest.mark.parametrize(
    ("check", "sql"),
    [
        (NotNull(columns=("it's",)), "`it's` IS NOT NULL"),
        (Range(column="small", min=0.5), "`small` >= CAST('0.5' AS decimal(2,1))"),
        (Range(column="amount", max=10, inclusive=False), "`amount` < CAST('10' AS decimal(2,0))"),
        (Range(column="ratio", min=0, max=1), "`ratio` >= CAST('0.0' AS double) AND `ratio` <= CAST('1.0' AS double)"),
        (Range(column="day", min="2025-01-31"), "`day` >= DATE '2025-01-31'"),
        (Range(column="at", min="2025-01-31T10:00"), "`at` >= TIMESTAMP_NTZ '2025-01-31 10:00:00.000000'"),
        (Range(column="seen", max="2025-01-31T10:00+02:00"), "`seen` <= TIMESTAMP '2025-01-31 08:00:00.000000+00:00'"),
        (AcceptedValues(column="it's", values=("a'b", "c")), "`it's` IN (CAST(X'612762' AS string), 'c')"),
        (AcceptedValues(column="paid", values=(True,)), "`paid` IN (true)"),
    ],
    ids=str,
)
def test_conditions(check, sql):
    check.refuse(COLUMNS)
    assert check.conditions(COLUMNS) == {check.columns: sql}


def test_of_several_columns_each_decides_by_itself():
    found = NotNull(columns=("id", "it's")).conditions(COLUMNS)
    assert found == {("id",): "`id` IS NOT NULL", ("it's",): "`it's` IS NOT NULL"}


@pytest.mark.parametrize(
    "check",
    [
        Range(column="small", min="many"),
        Range(column="small", min=float("nan")),
        Range(column="amount", min=10**40),
        Range(column="day", min="31.1.2025"),
        Range(column="day", min=20250131),
        Range(column="at", min="2025-01-31T10:00+02:00"),
        AcceptedValues(column="paid", values=(1,)),
        AcceptedValues(column="id", values=(True,)),
        AcceptedValues(column="it's", values=(1,)),
        Freshness(column="id", max_age=timedelta(days=1)),
        Unique(columns=("ratio",)),
    ],
    ids=str,
)
def test_what_does_not_fit_a_column_is_refused_before_a_row_is_read(check):
    with pytest.raises(ConfigError):
        refuse_rules("orders", [rule(check)], COLUMNS)


@pytest.mark.parametrize(
    ("check", "answers", "loads", "found"),
    [
        (RowCount(min=1), [0], (), "the load has 0 rows; at least 1 are expected"),
        (RowCount(max=5, of=Scope.TABLE), [6], (), "the table has 6 rows; at most 5"),
        (RowCount(min=1, max=5), [5], (), None),
        (RowCount(change=0.5), [500], (100, 90), None),
        (RowCount(change=0.5), [500], (100, 90, 110), "the median of the last 3 loads is 100, with a tolerance of 50%"),
        (RowCount(change=0.5), [150], (100, 90, 110), None),
        (RowCount(change=0.5, loads=3), [150], (150, 150, 150, 1, 1, 1, 1), None),
        (Unique(columns=("id",)), [7, 5], (), "2 rows of the table have duplicate values in (id)"),
        (Unique(columns=("id",)), [7, 7], (), None),
        (Freshness(column="at", max_age=timedelta(hours=1)), [3, "2025-06-01 11:00:00.000000"], (), None),
        (Freshness(column="at", max_age=timedelta(hours=1)), [3, "2025-06-01 10:59:59.000000"], (), "1 h 1 s old"),
        (Freshness(column="day", max_age=timedelta(hours=1)), [3, "2025-06-01"], (), "12 h old"),
        (Freshness(column="at", max_age=timedelta(hours=1)), [3, None], (), "no row has a value in at"),
        (Freshness(column="at", max_age=timedelta(hours=1)), [0, None], (), None),
        (Freshness(column="at", max_age=timedelta(hours=1)), [1, "+12025-06-01 11:00:00.000000"], (), None),
    ],
)
def test_judging(check, answers, loads, found):
    told = check.judge(answers, CheckContext(now=NOW, loads=loads))
    assert told is None if found is None else found in told


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (RowCount, "needs `min:`"),
        (lambda: RowCount(min=5, max=1), "above max"),
        (lambda: RowCount(change=0.5, of=Scope.TABLE), "of a load"),
        (lambda: RowCount(change=0.5, loads=2), "between 3 and 50"),
        (lambda: Range(column="id"), "`min:`, `max:` or both"),
        (lambda: References(columns=("id",), to="lake.a.b"), "one of the lakes"),
        (lambda: References(columns=("id",), to="lake.b", lakes={"lake": None}), "lake.schema.table"),
        (lambda: References(columns=("id",), to="lake..b", lakes={"lake": None}), "names separated by dots"),
        (
            lambda: References(
                columns=("id",),
                to="lake.a.b",
                lakes={"lake": None},
                target=Target(lake="lake", namespace=("a",), table="b"),
            ),
            "against itself",
        ),
        (lambda: References(columns=("id",), to="lake.a.b", field=("x", "y"), lakes={"lake": None}), "1 columns and 2"),
    ],
)
def test_options_that_contradict_each_other(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("more", [{}, {"where": "amuont > 0"}])
def test_a_column_that_is_not_there_is_named_with_the_nearest(more):
    check = NotNull(columns=("id",)) if more else NotNull(columns=("amuont",))
    with pytest.raises(ColumnMissing, match=r"names the column 'amuont'.*did you mean 'amount'") as caught:
        refuse_rules("orders", [rule(check, **more)], COLUMNS)
    assert caught.value.exit_code == 2


def test_rows_judged_as_a_whole_cannot_be_set_aside():
    with pytest.raises(ConfigError, match="evaluates the rows as a whole"):
        refuse_rules("orders", [rule(Unique(columns=("id",)), OnFail.QUARANTINE)], COLUMNS)


def test_names_are_told_apart():
    assert [each.name for each in renamed([rule(NotNull(columns=("id",)))] * 3)] == [
        "not_null",
        "not_null #2",
        "not_null #3",
    ]


def test_digits_that_spark_would_round_are_refused():
    """Beside a column of 38 digits no decimal has room for one behind the point."""
    wide = Schema(columns=(Column(name="n", type=decimal(38, 0)),))
    Range(column="n", min=1).refuse(wide)
    with pytest.raises(ConfigError, match=r"0\.5 is not a valid value"):
        Range(column="n", min=0.5).refuse(wide)
    with pytest.raises(ConfigError, match="'1e-20' is not a valid value"):
        AcceptedValues(column="id", values=(1, "1e-20")).refuse(COLUMNS)
    with pytest.raises(ConfigError, match="is not a valid value"):
        AcceptedValues(column="amount", values=("1e20", "1e-20")).refuse(COLUMNS)


def test_what_stops_names_rule_column_and_rows_and_what_warns_is_told():
    warned = RuleViolation(rule="b", columns=("x",), on_fail=OnFail.WARN, reason="odd", rows=2)
    aside = RuleViolation(rule="c", columns=("x",), on_fail=OnFail.QUARANTINE, reason="bad", rows=1)
    told = ("check b: 2 rows: odd; loaded, with a warning", "check c: 1 row: bad; not loaded, quarantined")
    assert settle("orders", [warned, aside], 9) == told
    stopping = RuleViolation(rule="a", columns=("id", "x"), on_fail=OnFail.STOP, reason="no value in id", rows=3)
    with pytest.raises(
        CheckFailed, match=r"stopped: check a: 3 rows: no value in id \(9 rows were read\); nothing"
    ) as caught:
        settle("orders", [warned, stopping], 9)
    assert caught.value.exit_code == 4
    assert caught.value.context == {"rule": "a", "column": "id, x", "rows": 3}


def test_columns_of_a_condition():
    assert columns_of("exists(tags, t -> t = name) and upper(`odd one`) like 'A%'") == ("name", "odd one", "tags")
