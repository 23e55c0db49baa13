"""What dialects give the kit keeps its promises: a schema of one's own, and values that the server takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate import plugins
from tidegate.core.ids import Connection
from tidegate.errors import ConfigError, SourceError
from tidegate_scenarios.certification import Certification
from tidegate_scenarios.run import certification_of

if TYPE_CHECKING:
    from support.postgres import PostgresServer


def certification(url: str) -> tuple[Certification, Connection]:
    connection = Connection(name="scratch", url=url)
    found = certification_of(connection.scheme)
    assert found is not None
    return found, connection


def check(url: str) -> None:
    """A schema is created, filled with every value, left by nothing but an empty one, and removed."""
    kit, connection = certification(url)
    names = [sample.name for sample in kit.samples]
    assert len(set(names)) == len(names)
    assert all(len({repr(value) for _, value in sample.values}) > 1 for sample in kit.samples)
    scratch = kit.open(connection, None)
    filled = plugins.dialect_of(connection.scheme)().relation(*scratch.parts("tidegate_filled")).sql
    try:
        assert scratch.contents() is None
        scratch.create()
        assert scratch.contents() == ()
        for create, _ in kit.own.values():
            scratch.execute(create)
        assert {*kit.own} == {*(scratch.contents() or ())}
        columns = {"id": kit.integer, **{sample.name: sample.declaration for sample in kit.samples}}
        scratch.execute(kit.create_table(filled, columns))
        for sample in kit.samples:
            rows = [[str(number), literal] for number, (literal, _) in enumerate(sample.values)]
            scratch.execute(kit.insert(filled, ["id", sample.name], rows))
            scratch.execute(f"DELETE FROM {filled}")
        assert "tidegate_filled" in (scratch.contents() or ())
        with pytest.raises(SourceError):
            scratch.remove()
        scratch.execute(f"DROP TABLE {filled}")
        for _, drop in kit.own.values():
            scratch.execute(drop)
        assert scratch.contents() == ()
        scratch.remove()
        assert scratch.contents() is None
        server = plugins.dialect_of(connection.scheme)().server(scratch.execute)
        assert server.version.startswith(server.major)
    finally:
        scratch.close()


@pytest.mark.postgres
def test_postgresql(pg_url: str) -> None:
    check(pg_url)


def test_mariadb(maria_url: str) -> None:
    check(maria_url)


def test_snowflake(snowflake_server) -> None:
    check(snowflake_server.url)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_file(tmp_path: Path, kind: str) -> None:
    check(f"{kind}:///{tmp_path / 'new.db'}")


@pytest.mark.postgres
def test_only_sessions_that_use_the_schema_are_ended(pg_url: str) -> None:
    kit, connection = certification(pg_url)
    scratch = kit.open(connection, None)
    scratch.create()
    scratch.execute(kit.create_table("used", {"id": kit.integer}))
    scratch.execute("CREATE TABLE public.other (id int)")
    user, other = scratch.connect_again(), scratch.connect_again()
    assert user is not None
    assert other is not None
    user.begin()
    user.execute("SELECT * FROM used")
    other.begin()
    other.execute("SELECT * FROM public.other")
    assert scratch.disconnect() == 1
    other.commit()
    with pytest.raises(SourceError):
        user.commit()
    for each in (user, other, scratch):
        each.close()


@pytest.mark.postgres
def test_a_slot_and_its_publication_end_with_the_certification(pg_url: str) -> None:
    kit, connection = certification(pg_url)
    (log,) = kit.logs
    scratch = kit.open(connection, None)
    log.start(scratch, "tidegate_orders", "tidegate_kept")
    for statement in (
        "SELECT pg_create_logical_replication_slot('tidegate_kept', 'pgoutput')",
        "SELECT pg_create_logical_replication_slot('tidegate_of_others', 'pgoutput')",
        "CREATE PUBLICATION tidegate_kept FOR ALL TABLES",
    ):
        scratch.execute(statement)
    assert log.stop(scratch, "tidegate_orders", "tidegate_kept") == ()
    assert log.stop(scratch, "tidegate_orders", "tidegate_kept") == ()
    listed = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert scratch.execute(listed) == [("tidegate_of_others",)]
    assert scratch.execute("SELECT pubname FROM pg_publication") == []
    log.stop(scratch, "tidegate_orders", "tidegate_of_others")
    scratch.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("right", "statement"),
    [("CREATE", 'ALTER ROLE "slotless" REPLICATION'), ("REPLICATION", "GRANT CREATE ON DATABASE")],
)
def test_what_would_allow_a_slot_is_said(postgres: PostgresServer, pg_url: str, right: str, statement: str) -> None:
    database = pg_url.rpartition("/")[2]
    kit, _ = certification(pg_url)
    with postgres.connect(database) as admin:
        admin.execute(f"CREATE ROLE slotless LOGIN {'REPLICATION' if right == 'REPLICATION' else ''}")
        if right == "CREATE":
            admin.execute(f'GRANT CREATE ON DATABASE "{database}" TO slotless')
        scratch = kit.open(Connection(name="scratch", url=postgres.url(database, user="slotless")), None)
        try:
            with pytest.raises(ConfigError) as found:
                kit.logs[0].start(scratch, "tidegate_orders", "tidegate_kept")
        finally:
            scratch.close()
            admin.execute("DROP OWNED BY slotless")
            admin.execute("DROP ROLE slotless")
    assert statement in found.value.hint
