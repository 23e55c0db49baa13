"""What every writer owes a load, on each format: the same suite for all that are there, and for any that comes."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate import plugins
from tidegate.core.effects import Apply, Insert, Mirror, Upsert, WriteHint
from tidegate.core.grouping import Whole
from tidegate.core.outcome import Result
from tidegate.core.plan import KeyFacts, Mode, Reset, WriteFacts
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, WriterContract, crash_at
from tidegate.testing.contracts.writer import chosen

WRITERS = plugins.names("writers")
KEEPS_ALL = {"append", "scd2"}
"""Writers whose table holds every row that a load has read, not the last ones alone."""

each_writer = pytest.mark.parametrize("kind", WRITERS)

AROUND = ((Stage.WRITE, Moment.DONE), (Stage.VERIFY, Moment.DONE), (Stage.ADVANCE, Moment.PUBLISHED))


class Books:
    """A source, the stream that one writer brings into a lake, and what its table should hold."""

    def __init__(self, folder: Any, spark: Any, kind: str, lake: str) -> None:
        self.workspace, self.spark, self.kind, self.lake = Workspace(folder=folder), spark, kind, lake
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql("create table books (id integer, title text, changed timestamp)")
        self.held: dict[int | None, tuple[Any, ...]] = {}
        self.read: list[tuple[Any, ...]] = []
        self._moments = iter(range(60))
        by_cursor = Upsert in plugins.load("writers", kind).accepts
        self.workspace.write(
            {
                "books": {
                    "source": {"connection": "shop", "table": "books"},
                    "target": "lake.shop.books",
                    "key": ["id"],
                    "strategy": {"kind": "watermark", "column": "changed"} if by_cursor else "full",
                    "write": kind,
                }
            },
            connections={"shop": {"url": self.shop.url}},
            lakes={"lake": {"format": lake}},
            spark={"conf": QUICK},
        )

    def change(self, *ids: int | None) -> None:
        """These books are there and have changed."""
        for number in ids:
            moment = next(self._moments)
            row = (number, f"{number}|~{moment}", f"2025-01-01 00:00:{moment:02}")
            known = "null" if number is None else number
            self.shop.sql(
                f"delete from books where id is {known}", f"insert into books values ({known}, '{row[1]}', '{row[2]}')"
            )
            self.held[number] = row
            self.read.append(row)

    def run(self, **options: Any) -> Any:
        return self.workspace.run(spark=self.spark, **options).streams[0]

    def load(self) -> Any:
        outcome = self.run()
        assert outcome.error is None, outcome.error
        return outcome

    def crash(self, boundary: tuple[Stage, Moment]) -> None:
        """A run that ends there."""
        with pytest.raises(Crash):
            self.workspace.run(spark=self.spark, on_event=crash_at(boundary))

    @property
    def proves_alone(self) -> bool:
        """Whether what a crash left unproven can be proven without the registry: not of rows that are there no more."""
        return self.lake == "iceberg" or self.kind != "append"

    def expected(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.read if self.kind in KEEPS_ALL else self.held.values())

    def found(self) -> Counter[tuple[Any, ...]]:
        """What PyIceberg or delta-rs reads."""
        if self.lake == "delta":
            rows = delta_rows(str(self.workspace.folder / "warehouse" / "shop" / "books"))
        else:
            rows = self.workspace.rows("shop.books")
        return Counter((row["id"], row["title"], f"{row['changed']:%Y-%m-%d %H:%M:%S}") for row in rows)


@pytest.fixture
def books(tmp_path: Any, spark: Any, kind: str, lake: str) -> Books:
    return Books(tmp_path, spark, kind, lake)


@each_writer
@pytest.mark.parametrize("lake", ["iceberg", "delta"])
@pytest.mark.spark
@pytest.mark.timeout(600)
class TestLoads:
    @pytest.mark.slow
    def test_every_row_lands_once_wherever_a_run_ends(self, books: Books) -> None:
        books.change(1, 2, 3)
        assert books.load().verified is True
        assert books.found() == books.expected()
        # A cycle of keys: one that is there changes, one comes.
        for (number, boundary), forget in zip(enumerate(AROUND, start=4), cycle([False, True]), strict=False):
            books.change(1 + number % 3, number)
            books.crash(boundary)
            if forget and books.proves_alone:
                books.workspace.forget_registry()
            books.load()
            assert books.found() == books.expected(), boundary
        again = books.load()
        assert books.found() == books.expected()
        assert again.outcome is Result.UNCHANGED or again.effect == "mirror"

    def test_a_key_without_a_value_stops_and_leaves_the_table(self, books: Books, kind: str) -> None:
        books.change(1, 2)
        books.load()
        before = books.found()
        books.change(None, 2)
        outcome = books.run()
        if not plugins.load("writers", kind).needs_key and outcome.error is None:
            assert books.found() == books.expected(), "a row like any other"
            return
        assert outcome.error is not None
        assert "key" in outcome.error.message
        assert books.found() == before
        books.shop.sql("delete from books where id is null")
        books.held.pop(None)
        books.read = [row for row in books.read if row[0] is not None]
        books.load()
        assert books.found() == books.expected()


EFFECTS = (
    st.builds(Insert)
    | st.builds(Upsert, repeats=st.none() | st.just("a file comes again"))
    | st.builds(
        Mirror, of=st.none() | st.just(Whole()), moves=st.booleans(), hint=st.none() | st.sampled_from(WriteHint)
    )
    | st.builds(Apply)
)
FACTS = st.builds(
    WriteFacts,
    effect=EFFECTS,
    rows=st.none() | st.integers(0, 10**9),
    table_rows=st.none() | st.integers(0, 10**9),
    reset=st.none() | st.just(Reset()),
    keys=st.builds(KeyFacts, columns=st.sampled_from([(), ("id",)]), unique=st.booleans(), apart=st.booleans()),
    aligned=st.booleans(),
    counted=st.booleans(),
    missing_keys=st.booleans(),
    carried=st.booleans(),
)


@each_writer
@given(facts=FACTS)
def test_a_writer_chooses_for_whatever_is_known_and_says_why(kind: str, facts: WriteFacts) -> None:
    choice = chosen(plugins.load("writers", kind)(), facts)
    if choice is not None and facts.reset and facts.table_rows != 0 and kind != "scd2":
        assert choice.mode is Mode.OVERWRITE, "a full refresh leaves no row of before"


@pytest.mark.spark
class TestWriters(WriterContract):
    @pytest.fixture(params=WRITERS)
    def writer(self, request):
        return plugins.load("writers", request.param)()
