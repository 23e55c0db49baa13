"""What every writer owes a load: its choices are explained and repeatable, and every row lands once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.core.effects import Apply, Effect, Insert, Mirror, Upsert, WriteHint
from tidegate.core.grouping import Whole
from tidegate.core.plan import KeyFacts, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.errors import PlanError
from tidegate.strategies.full import Full
from tidegate.strategies.watermark import Watermark
from tidegate.testing.project import LocalProject
from tidegate.testing.source import MemorySource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="title", type=TEXT),
        Column(name="changed", type=TIMESTAMP, nullable=False),
    )
)
EFFECTS: tuple[Effect, ...] = (
    Insert(),
    Upsert(),
    Upsert(repeats="a file comes again"),
    Mirror(),
    Mirror(hint=WriteHint.COMPARE),
    Mirror(hint=WriteHint.REWRITE),
    Mirror(of=Whole(), moves=True),
    Apply(),
)
SAMPLE = 4_000


class WriterContract:
    """The suite of a writer: subclass it and override the fixtures `writer` and, for loads, `spark`."""

    @pytest.fixture
    def writer(self) -> Writer:
        """The writer, with options for rows of `COLUMNS` whose key is `id`."""
        raise NotImplementedError

    def test_it_says_what_it_takes(self, writer: Writer) -> None:
        """A whole table is only taken by a writer that may write rows again."""
        assert writer.accepts
        assert writer.idempotent or Mirror not in writer.accepts, "a whole table added again would be there twice"

    def test_it_chooses_for_whatever_is_known_and_says_why(self, writer: Writer) -> None:
        """The same facts give the same choice; only rows that may come again can be refused here."""
        for facts in _facts():
            chosen(writer, facts)

    def test_every_row_that_a_load_reads_is_in_the_table(
        self, writer: Writer, spark: SparkSession, tmp_path: Path
    ) -> None:
        """Rows of known keys and of new ones; a load without changes writes no row."""
        source = MemorySource(schema=COLUMNS, key=("id",))
        strategy: Any = Watermark(column="changed") if Upsert in writer.accepts else Full()
        moments = itertools.count()
        parts: dict[str, Any] = {"source": source, "strategy": strategy, "writer": writer, "key": ("id",)}
        with LocalProject(**parts, spark=spark, folder=tmp_path) as project:
            for ids in ((1, 2, 3), (2, 4), ()):
                _change(source, ids, moments)
                outcome = project.load()
                assert outcome.verified is True or not ids
                found = {(row["id"], row["title"]) for row in project.rows("id", "title")}
                assert {(row["id"], row["title"]) for row in source.rows} <= found


def chosen(writer: Writer, facts: WriteFacts) -> WriteChoice | None:
    """What the writer chooses, found to be explained and repeatable; None where it refuses rows that may come again."""
    try:
        choice = writer.choose(facts)
    except PlanError:
        assert getattr(facts.effect, "repeats", None), "nothing else is refused here"
        return None
    assert isinstance(choice.mode, Mode)
    assert choice.reason
    assert choice == writer.choose(facts), "the same facts, the same choice"
    return choice


def _facts() -> Iterator[WriteFacts]:
    """A sample of everything that may be known, the same in every run."""
    dice = random.Random(20)  # noqa: S311 - a sample, no secret
    for _ in range(SAMPLE):
        flags = ("aligned", "counted", "missing_keys", "carried")
        yield WriteFacts(
            effect=dice.choice(EFFECTS),
            rows=dice.choice((None, 0, 1, 10**3, 10**9)),
            table_rows=dice.choice((None, 0, 1, 10**3, 10**9)),
            keys=KeyFacts(
                columns=dice.choice(((), ("id",))), unique=dice.choice((True, False)), apart=dice.choice((True, False))
            ),
            **{name: dice.choice((True, False)) for name in flags},  # type: ignore[arg-type]
        )


def _change(source: MemorySource, ids: tuple[int, ...], moments: Iterator[int]) -> None:
    for number in ids:
        moment = next(moments)
        changed = datetime(2025, 1, 1) + timedelta(seconds=moment)  # noqa: DTZ001 - a column without a zone
        source.rows[:] = [row for row in source.rows if row["id"] != number]
        source.rows.append({"id": number, "title": f"{number}|~{moment}", "changed": changed})
