"""A SQLite file as a source, without Spark: edges, keys, types, movement, bad input."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidegate.core.batch import Latest
from tidegate.core.bounds import Clock, SequenceBound, TimeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.policies.contract import ColumnMapping
from tidegate.core.schema import DATE, TEXT, Column, Schema
from tidegate.core.slices import Everything, Range
from tidegate.dialects.shared.columns import described
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts

ORDERS = """
CREATE TABLE orders (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(10), amount DECIMAL(10,2),
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
)
"""
NONE = timedelta(0)


TIME = TimeBound(column="updated_at")


class File:
    """A file with a table of orders, and a writer of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop db.sqlite"
        self.writer = sqlite3.connect(self.path, isolation_level=None)
        self.writer.execute(ORDERS)

    def source(self, **options) -> Database:
        """A source on the file; the table unless said otherwise."""
        options = options if "query" in options else {"table": "orders", **options}
        return Database(connection=Connection(name="file", url=f"sqlite:///{self.path}"), **options)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = File(tmp_path)
    yield file
    file.writer.close()


def test_time_edge_is_the_second_before(file: File) -> None:
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    with file.source().probe(bound=TIME) as probe:
        edge = probe.edge()
    found = datetime.fromisoformat(edge.upto or "")
    assert timedelta(0) < before - found + timedelta(seconds=1) <= timedelta(seconds=1, microseconds=1)
    assert edge.held_by == ()


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_of_other_bytes_are_refused(tmp_path: Path, encoding: str) -> None:
    """They arrived as bytes that are no UTF-8, and sorted by them."""
    path = tmp_path / "wide.db"
    with sqlite3.connect(path) as writer:
        writer.execute(f"PRAGMA encoding = '{encoding}'")
        writer.execute(ORDERS)
        writer.execute("INSERT INTO orders (name) VALUES ('Ærø')")
    writer.close()
    connection = Connection(name="file", url=f"sqlite:///{path}")
    with (
        pytest.raises(SourceRefused, match=f"wide.db keeps its texts as {encoding}, and only UTF-8") as refused,
        Database(connection=connection, table="orders").probe(),
    ):
        pass
    assert "sqlite3 wide.db .dump | sqlite3 copy.db" in refused.value.hint
    with sqlite3.connect(path) as writer, sqlite3.connect(tmp_path / "copy.db") as copy:
        copy.executescript("\n".join(writer.iterdump()))
    writer.close()
    copy.close()
    connection = Connection(name="file", url=f"sqlite:///{tmp_path / 'copy.db'}")
    with Database(connection=connection, table="orders").probe() as probe:
        assert probe.key_bounds(Everything(), "name").low == "Ærø"


def test_row_of_this_second_is_not_below_the_edge(file: File) -> None:
    file.writer.execute("INSERT INTO orders (name) VALUES ('now')")
    with file.source().probe(bound=TIME) as probe:
        edge = probe.edge()
        part = Range(cursor=("updated_at",), after=None, upto=edge.upto)
        ((now,),) = file.writer.execute("SELECT updated_at FROM orders")
        assert probe.stats(part).later == (1 if f"{now}.000000" > (edge.upto or "") else 0)


def test_writer_holds_both_edges(file: File) -> None:
    file.writer.execute("INSERT INTO orders (name) VALUES ('a')")
    file.writer.execute("BEGIN")
    file.writer.execute("INSERT INTO orders (name) VALUES ('b')")
    with file.source().probe(bound=TIME) as probe:
        edge = probe.edge()
        assert edge.upto is None
        assert "writing" in edge.held_by[0]
        assert "writing" in probe.notes()[0]
    with file.source().probe(bound=SequenceBound(column="id")) as probe:
        assert probe.edge().upto is None
        assert "writing" in probe.notes()[0]
    file.writer.execute("COMMIT")
    with file.source().probe(bound=SequenceBound(column="id")) as probe:
        assert probe.edge().upto == "2"


def test_last_generated_number_is_told_by_the_file(file: File) -> None:
    def generated() -> int | None:
        with file.source().probe(bound=SequenceBound(column="id")) as probe:
            return probe.edge().generated

    assert generated() == 0
    file.writer.execute("INSERT INTO orders (name) VALUES ('a'), ('b'), ('c')")
    file.writer.execute("DELETE FROM orders WHERE id > 1")
    assert generated() == 3
    file.writer.execute("DELETE FROM sqlite_sequence")
    assert generated() == 1


def test_number_that_is_given_again_has_no_edge(file: File) -> None:
    file.writer.execute('CREATE TABLE again (id INTEGER PRIMARY KEY, "AUTOINCREMENT" TEXT)')
    with (
        pytest.raises(EdgeUnknown, match="AUTOINCREMENT"),
        file.source(table="again").probe(bound=SequenceBound(column="id")),
    ):
        pass


def test_file_that_nobody_here_may_write(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda file, **named: connect(file.replace("mode=rw", "mode=ro"), **named))
    with pytest.raises(EdgeUnknown, match="only a user who may write"), file.source().probe(bound=TIME):
        pass
    with file.source().probe(bound=TimeBound(column="updated_at", clock=Clock.APPLICATION)) as probe:
        assert probe.edge().upto


def test_movement_is_seen(file: File) -> None:
    with file.source().probe() as probe:
        assert probe.count(Everything()) == 0
        probe.verify_unchanged()
        file.writer.execute("INSERT INTO orders (name) VALUES ('a')")
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()


def test_identity_and_clock(file: File) -> None:
    with file.source().probe() as probe:
        identity, clock = probe.identity(), probe.clock()
    file.writer.execute("INSERT INTO orders (name) VALUES ('a')")
    with file.source().probe() as probe:
        assert probe.identity() == identity
        assert clock is not None
        assert (probe.clock() or 0) > clock


def test_questions(file: File) -> None:
    file.writer.executemany(
        "INSERT INTO orders (name, amount, updated_at) VALUES (?, ?, ?)",
        [("a", 1.5, "2025-01-01 00:00:00"), ("a", 2, "2025-01-02T00:00:00.5"), ("b|~", None, "2025-01-03")],
    )
    cursor = ("updated_at",)
    with file.source().probe() as probe:
        assert [str(column.type) for column in probe.schema()] == ["bigint", "string", "decimal(10,2)", "timestamp_ntz"]
        part = Range(cursor=cursor, after="2025-01-01 00:00:00.000000", upto="2025-01-02 12:00:00.000000")
        stats = probe.stats(part)
        assert (stats.rows, stats.last, stats.later) == (1, "2025-01-02 00:00:00.500000", 1)
        assert probe.unique(["id"])
        assert not probe.unique(["name"])
        latest = Latest(key=("name",), order=("updated_at",))
        assert probe.count(Everything(), latest=latest) == 2
        assert probe.fingerprint(Everything(), latest=latest).rows == 2
        assert probe.fingerprint(Everything(), latest=latest) != probe.fingerprint(Everything())
        bounds = probe.key_bounds(Everything(), "id")
        assert bounds is not None
        assert (bounds.low, bounds.high, bounds.values) == ("1", "3", ("1", "2", "3"))
        assert probe.key_bounds(Everything(), "amount") is None


@pytest.mark.parametrize(("column", "value"), [("updated_at", "yesterday"), ("updated_at", 1700000000), ("name", b"b")])
def test_value_of_another_type_is_refused_wherever_it_is_met(file: File, column: str, value: object) -> None:
    file.writer.execute(f"INSERT INTO orders ({column}) VALUES (?)", [value])
    with file.source().probe() as probe:
        with pytest.raises(SchemaRefused, match=f"column '{column}' holds a value"):
            probe.fingerprint(Everything())
        if column == "updated_at":
            with pytest.raises(SchemaRefused):
                probe.stats(
                    Range(cursor=(column,), after="2024-01-01 00:00:00.000000", upto="2025-01-01 00:00:00.000000")
                )


def test_declarations(file: File) -> None:
    file.writer.execute("CREATE TABLE free (a, b NUMERIC, c MONEY)")
    with (
        file.source(table="free").probe() as probe,
        pytest.raises(SchemaRefused, match=r"'a' \(no declared type\), 'b' \(declared NUMERIC\)"),
    ):
        probe.schema()
    stated = {"a": "text", "b": "decimal(10,2)", "c": "bigint"}
    with file.source(table="free", columns=stated).probe() as probe:
        assert [str(column.type) for column in probe.schema()] == ["string", "decimal(10,2)", "bigint"]
    with file.source(table="free", columns={"d": "text"}).probe() as probe, pytest.raises(ConfigError, match="'d'"):
        probe.schema()
    with file.source(columns={"name": "varint"}).probe() as probe, pytest.raises(ConfigError, match="not a type"):
        probe.schema()


def test_a_key_that_counts_down_is_no_number_of_the_row_and_may_be_null(file: File) -> None:
    file.writer.execute("CREATE TABLE down (id INTEGER PRIMARY KEY DESC, v int)")
    file.writer.execute("INSERT INTO down VALUES (NULL, 1), (NULL, 2), (7, 3)")
    file.writer.execute("CREATE TABLE up (id INTEGER, v int, PRIMARY KEY (id DESC))")
    for table, nullable in (("down", True), ("up", False), ("orders", False)):
        with file.source(table=table).probe() as probe:
            assert probe.schema().find("id").nullable is nullable
            assert probe.unique(["id"]) is not nullable


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(SchemaRefused, match="nothing has no columns"):
        described("nothing", [], ColumnSelection(), lambda *_: "")


def test_query(file: File) -> None:
    file.writer.execute("INSERT INTO orders (name, updated_at) VALUES ('a', '2025-01-01 00:00:00')")
    query = "SELECT id, name, 1 + id AS next FROM orders -- all of them"
    with file.source(query=query).probe() as probe, pytest.raises(SchemaRefused, match="'next'"):
        probe.schema()
    with file.source(query=query, columns={"next": "bigint"}).probe() as probe:
        assert probe.schema().names == ("id", "name", "next")
        assert probe.count(Everything()) == 1
        assert not probe.unique(["id"])


def test_bad_input(file: File, tmp_path: Path) -> None:
    with file.source(table="nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    missing = Connection(name="file", url=f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(SourceUnavailable, match="does not exist"), Database(connection=missing, table="a").probe():
        pass
    (tmp_path / "text.db").write_text("this is no database, and long enough to be told from an empty one" * 20)
    text = Connection(name="file", url=f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(SourceUnavailable, match="not a SQLite database"), Database(connection=text, table="a").probe():
        pass
    with pytest.raises(ConfigError), Database(connection=Connection(name="a", url="sqlite://"), table="a").probe():
        pass


def test_tables_and_facts(file: File) -> None:
    file.writer.execute("CREATE TABLE raw_a (a TEXT NOT NULL, b MONEY, PRIMARY KEY (a))")
    file.writer.execute("CREATE INDEX by_b ON raw_a (b, a)")
    connection = file.source().connection
    assert list_tables(connection) == [("main", "orders"), ("main", "raw_a")]
    assert list_tables(connection, "main.raw_*") == [("main", "raw_a")]
    (facts,) = table_facts(connection, "raw_*")
    assert facts.primary_key == ("a",)
    assert facts.indexes == (("b", "a"),)
    assert facts.columns.names == ("a",)
    assert "MONEY" in facts.unsupported["b"]


def test_a_column_whose_values_are_not_what_is_declared_is_proposed_as_what_it_holds(file: File) -> None:
    """As Prisma, Go, Sequelize and Django write times, and bytes in a column of text."""
    columns = {
        "ms": 1704164645123,
        "nano": "2024-01-02 03:04:05.123456789+00:00",
        "node": "2024-01-02 03:04:05.120 +00:00",
    }
    columns |= {"py": "2024-01-02 03:04:05.123456", "iso": "2024-01-02T03:04:05Z", "raw": b"\x00"}
    file.writer.execute(
        f"CREATE TABLE apps (id INTEGER PRIMARY KEY, {', '.join(f'{name} DATETIME' for name in columns)})"
    )
    file.writer.execute("INSERT INTO apps VALUES (1, ?, ?, ?, ?, ?, ?)", tuple(columns.values()))
    connection = file.source().connection
    (facts,) = table_facts(connection, "apps")
    assert facts.columns.names == ("id", "node", "py", "iso")
    assert set(facts.unsupported) == {"ms", "nano", "raw"}
    assert facts.as_text == ["ms", "nano"]
    read = Database(connection=connection, table="apps", columns={"ms": "text", "nano": "text"}, exclude=("raw",))
    with read.probe() as probe:
        assert probe.fingerprint(Everything()).rows == 1


def test_cuts_cover_every_row_once(file: File) -> None:
    file.writer.executemany("INSERT INTO orders (id) VALUES (?)", [(number,) for number in (1, 5, 6, 7, 100, 1000)])
    with file.source().probe() as probe:
        relation = probe.statements.relation
        cuts = probe.session.cuts(relation, 4)
        counts = [probe.session.rows(f"SELECT count(*) FROM orders WHERE {cut}")[0][0] for cut in cuts]
    assert len(cuts) == 4
    assert sum(counts) == 6


def fit(table: Schema, names: str, **contract: str) -> ColumnMapping:
    """To a table of these columns; those that the relation does not have are texts."""
    columns = (table.find(name) or Column(name=name, type=TEXT) for name in names.split())
    return ColumnMapping(table=Schema(columns=tuple(columns)), contract=contract, key=("id",))


def test_columns_that_are_packed_change_no_answer_about_the_others(file: File) -> None:
    file.writer.execute("INSERT INTO orders (name, amount) VALUES ('a', 1)")
    with file.source(query="SELECT id, name FROM orders").probe() as probe:
        alone = probe.fingerprint(Everything())
    with file.source().probe() as probe:
        table = probe.schema()
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id name", add_column="rescue"))
        assert probe.schema().names == ("id", "name", "_rescued")
        assert probe.schema().not_covered == ("_rescued",)
        assert probe.fingerprint(Everything()) == alone
        whole, packed = probe.unpacked()
        assert (whole.schema.names, packed) == (("id", "name", "amount", "updated_at"), ("amount", "updated_at"))
        with pytest.raises(ColumnMissing):
            probe.stats(Range(cursor=("updated_at",), after=None, upto="2025-01-01 00:00:00"))
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id name amount updated_at", add_column="rescue"))
        assert "_rescued" not in probe.schema().names, "nothing is left over"
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id name amount updated_at _rescued", add_column="rescue"))
        assert probe.schema().names[-1] == "_rescued", "a table that has the column is loaded with NULL in it"
    file.writer.execute("ALTER TABLE orders ADD COLUMN _rescued text")
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id", add_column="rescue"))
        with pytest.raises(SchemaRefused, match="_rescued"):
            probe.schema()
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id _rescued", add_column="discard"))
        assert probe.schema().names == ("id", "_rescued"), "nothing is packed, so that it is a column as any other"


def test_columns_that_are_discarded_are_not_read(file: File) -> None:
    with file.source().probe() as probe:
        table = probe.schema()
    with file.source().probe() as probe:
        probe.rescue.map_columns(fit(table, "id name", add_column="discard"))
        assert probe.schema().names == ("id", "name")
        assert {change.column: str(mode) for change, mode in probe.rescue.left_out().items()} == {
            "amount": "discard",
            "updated_at": "discard",
        }
        assert probe.unpacked() == (probe.statements, ())


def test_columns_of_another_type_are_packed_or_left_out_but_not_those_of_the_key(file: File) -> None:
    with file.source().probe() as probe:
        columns = tuple(replace(column, type=DATE) for column in probe.schema())
    for mode, names in (("rescue", ("id", "_rescued")), ("discard", ("id",))):
        with file.source().probe() as probe:
            probe.rescue.map_columns(
                ColumnMapping(table=Schema(columns=columns), contract={"type_change": mode}, key=("id",))
            )
            assert probe.schema().names == names
            assert [(change.kind, change.column) for change in probe.rescue.left_out()] == [
                ("type_change", name) for name in ("name", "amount", "updated_at")
            ]
