"""What every check owes a load: it finds what a model in plain Python finds, and it refuses what cannot be checked."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.config.options import descriptions, summary
from tidegate.core.outcome import Outcome
from tidegate.core.policies.rules import Check, Judges, OnFail, Rule
from tidegate.core.schema import BIGINT, DATE, TEXT, TIMESTAMP, Column, Schema, decimal
from tidegate.engine.quality.rules import refuse_rules
from tidegate.errors import ColumnMissing, ConfigError
from tidegate.strategies.full import Full
from tidegate.testing.project import LocalProject
from tidegate.testing.rows import Row
from tidegate.testing.source import MemorySource
from tidegate.writers.replace import Replace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="code", type=TEXT),
        Column(name="amount", type=decimal(10, 2)),
        Column(name="day", type=DATE),
        Column(name="changed", type=TIMESTAMP),
    )
)
"""The columns of the suite's rows; `id` is unique."""
NOW = datetime(2025, 6, 1, tzinfo=UTC)
"""The time of the suite's loads."""
SECRET = "of-this-row-alone"  # noqa: S105 - what no message may say


def _row(number: int, code: str | None, amount: str | None, day: str | None, changed: str | None) -> Row:
    return {
        "id": number,
        "code": code,
        "amount": None if amount is None else Decimal(amount),
        "day": None if day is None else date.fromisoformat(day),
        "changed": None if changed is None else datetime.fromisoformat(changed),
    }


CONTENT = (
    _row(-7, "a|b", "-0.01", "2024-12-31", "2024-12-31 23:59:59.999999"),
    _row(0, "", "0.00", "2025-01-01", "2025-01-01 00:00:00"),
    _row(1, "open", "10.00", "2025-01-01", "2025-05-31 23:00:00"),
    _row(2, "open", "10.01", "2025-01-02", "2025-05-31 23:59:59"),
    _row(3, "OPEN", "9.99", "2025-01-02", "2025-01-02 00:00:00"),
    _row(4, 'it\'s \\ "paid"', "99999999.99", None, None),
    _row(5, None, "5.00", "2025-01-03", "2025-01-03 00:00:00"),
    _row(6, "paid", None, "2025-01-03", "2025-01-03 00:00:00"),
    _row(7, SECRET, "5.00", "9999-12-31", "2025-01-04 00:00:00"),
    _row(2**40, None, None, None, None),
)
"""Rows with NULL in one column and in all, texts that differ only in case, equal values, and bounds with their
neighbours."""

BrokenRows = Callable[[Sequence[Row]], "Sequence[Row] | bool"]


class CheckContract:
    """The suite of a check: subclass it and override the fixtures `check`, `broken`, `impossible` and `spark`."""

    @pytest.fixture
    def check(self) -> Check:
        """The check, with options for rows of `COLUMNS` that some rows of `CONTENT` break and others do not."""
        raise NotImplementedError

    @pytest.fixture
    def broken(self) -> BrokenRows:
        """The model, in plain Python: those of some rows that break the check.

        Of a check that evaluates rows as a whole: whether they break it.
        """
        raise NotImplementedError

    @pytest.fixture
    def impossible(self) -> Sequence[Mapping[str, Any]]:
        """Options that must be refused, each in place of the check's own."""
        raise NotImplementedError

    def test_it_describes_itself_and_its_options(self, check: Check) -> None:
        """Editors, messages and `tidegate check` show what the docstring says."""
        own: Any = type(check)
        assert re.fullmatch(r"[a-z][a-z0-9_]*", check.kind)
        # A dataclass without a docstring has its signature for one.
        assert summary(own)
        assert not summary(own).startswith(f"{own.__name__}("), "the class has no docstring"
        options = {each.name for each in dataclasses.fields(own) if not each.metadata.get("given")}
        assert check.main in options
        assert not options - descriptions(own).keys(), "options that `Args:` does not describe"

    def test_options_that_cannot_be_are_refused(self, check: Check, impossible: Sequence[Mapping[str, Any]]) -> None:
        """When they are read, or when the columns are known: never by a load that is under way."""
        assert impossible
        made: Any = check
        refuse_rules("rows", [Rule(check=made, name="as it is")], COLUMNS)
        for options in impossible:
            with pytest.raises((ConfigError, ColumnMissing)):
                refuse_rules("rows", [Rule(check=dataclasses.replace(made, **options), name="other")], COLUMNS)

    def test_a_column_that_is_missing_is_refused(self, check: Check) -> None:
        """Each of those that it names."""
        for name in check.columns:
            others = Schema(columns=tuple(column for column in COLUMNS if column.name != name))
            with pytest.raises(ColumnMissing):
                refuse_rules("rows", [Rule(check=check, name="other columns")], others)

    def test_it_finds_what_the_model_finds(
        self, check: Check, broken: BrokenRows, spark: SparkSession, tmp_path: Path
    ) -> None:
        """In each row alone, in rows with NULL, in no row, and in random ones; it reads no column but those it names.

        Each set of rows is a rule of its own, restricted to them by `where:`.
        """
        sets = _sets(check.columns)
        rules = tuple(
            Rule(check=check, name=f"set {number}", on_fail=OnFail.WARN, where=_where(rows))
            for number, rows in enumerate(sets)
        )
        notes = _load(rules, spark, tmp_path, only=("id", *check.columns)).notes
        found = [_findings(check, rule.name, notes) for rule in rules]
        wanted = [_counted(check, broken(rows)) for rows in sets]
        differing = [
            f"of {[row['id'] for row in rows]}: {one}, not {other}"
            for rows, one, other in zip(sets, found, wanted, strict=True)
            if one != other
        ]
        assert not differing, "ids of rows: what the check finds in them, what the model finds"
        assert any(wanted), "no row of the suite breaks it: choose other options"
        assert not all(wanted), "nothing in the suite passes it: choose other options"

    def test_a_load_stops_or_sets_rows_aside(
        self, check: Check, broken: BrokenRows, spark: SparkSession, tmp_path: Path
    ) -> None:
        """Nothing is published of a load that stops; no message has a value of a row."""
        some = next((rows for rows in reversed(_sets(check.columns)) if broken(rows)), ())
        stop = Rule(check=check, name="rule", on_fail=OnFail.STOP, where=_where(some))
        stopped = _load((stop,), spark, tmp_path / "stopped", lands=False)
        assert SECRET not in f"{stopped.notes} {stopped.error}"
        bad = broken(CONTENT)
        if isinstance(bad, bool):
            return
        rule = Rule(check=check, name="rule", on_fail=OnFail.QUARANTINE)
        with _project((rule,), spark, tmp_path / "quarantined", COLUMNS.names) as project:
            outcome = project.load()
            landed = {row["id"] for row in project.rows("id")}
        assert landed == {row["id"] for row in CONTENT} - {row["id"] for row in bad}
        assert outcome.rows_quarantined == len(bad)
        assert SECRET not in str(outcome.notes)


def _sets(columns: Sequence[str]) -> list[Sequence[Row]]:
    """No row, each alone, those with a NULL, those without, all, and some by chance, the same in every run."""
    dice = random.Random(7)  # noqa: S311 - a sample, no secret
    nulls = [row for row in CONTENT if None in [row[name] for name in columns]]
    whole = [row for row in CONTENT if row not in nulls]
    some = [[row for row in CONTENT if dice.random() < 0.5] for _ in range(8)]
    return [(), *((row,) for row in CONTENT), nulls, whole, CONTENT, *some]


def _where(rows: Sequence[Row]) -> str:
    return f"id IN ({', '.join(str(row['id']) for row in rows)})" if rows else "false"


def _counted(check: Check, bad: Sequence[Row] | bool) -> int:
    """How many rows break it, or 1 for rows that do together."""
    whole = check.judges is Judges.AGGREGATE
    assert isinstance(bad, bool) is whole, f"of a check that judges each {check.judges} the model gives something else"
    return int(bad) if isinstance(bad, bool) else len(bad)


def _findings(check: Check, name: str, notes: Sequence[str]) -> int:
    """The same, by the notes of a load."""
    findings = [note for note in notes if note.startswith(f"check {name}: ")]
    if not findings:
        return 0
    assert len(findings) == 1
    found = re.fullmatch(r"check set \d+: (?:(\d+) rows?: )?(?!\d+ rows?: )([^\s;].*)", findings[0])
    assert found is not None, f"a finding without a reason: {findings[0]!r}"
    assert (found[1] is None) is (check.judges is Judges.AGGREGATE)
    assert SECRET not in findings[0]
    return int(found[1] or 1)


def _project(rules: tuple[Rule, ...], spark: SparkSession, folder: Path, names: Sequence[str]) -> LocalProject:
    columns = Schema(columns=tuple(column for column in COLUMNS if column.name in names))
    rows = [{name: row[name] for name in columns.names} for row in CONTENT]
    source = MemorySource(schema=columns, rows=rows, key=("id",))
    parts: dict[str, Any] = {"source": source, "strategy": Full(), "writer": Replace(), "key": ("id",)}
    return LocalProject(**parts, spark=spark, folder=folder, checks=rules, now=lambda: NOW)


def _load(
    rules: tuple[Rule, ...],
    spark: SparkSession,
    folder: Path,
    *,
    only: Sequence[str] = COLUMNS.names,
    lands: bool = True,
) -> Outcome:
    with _project(rules, spark, folder, only) as project:
        outcome = project.run()
        if lands:
            assert outcome.error is None, outcome.error
            assert len(project.rows()) == len(CONTENT)
        else:
            assert outcome.error is not None, "a load of rows that break it is not stopped"
            assert outcome.error.code == "check_failed", outcome.error
            assert project.rows() == []
    return outcome
