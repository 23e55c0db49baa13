"""A dialect that is wrong does not pass, and the case that fails says where: the kit asks nobody what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.certify import certify, named
from support.plugin import installed_package

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PLUGIN = '''
from dataclasses import replace

from tidegate.core.changes import SafeBound
from tidegate.core.schema import Kind
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.postgresql.certification import PostgresqlCertification, PostgresqlScratch
from tidegate.dialects.postgresql.session import PostgresqlSession
from tidegate.dialects.sqlite import Sqlite

NOW = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"


class Truncating(Sqlite):
    """Loses microseconds where it reads and where it hashes, so that both sides of a verification agree."""

    kind = "truncating"

    def text(self, sql, column):
        found = super().text(sql, column)
        return f"substr({found}, 1, 19) || '.000000'" if column.type.kind is Kind.TIMESTAMP else found


class Blind(Sqlite):
    """Its fingerprints do not look at uuids."""

    kind = "blind"

    def text(self, sql, column):
        found = super().text(sql, column)
        return f"substr({found}, 1, 0)" if column.type.kind is Kind.UUID else found

    def read(self, column):
        found = super().read(column)
        if column.type.kind is not Kind.UUID:
            return found
        return replace(found, sql=super().text(self.quote(column.name), column))


class Hasty(Postgresql):
    """Takes a time for safe although somebody is writing."""

    kind = "hasty"
    schemes = ()

    @property
    def certification(self):
        return HastyCertification()

    def open(self, connection):
        return HastySession(self, real(connection))


def real(connection):
    return replace(connection, url=connection.url.replace("hasty://", "postgresql://"))


class HastySession(PostgresqlSession):
    def safe_time_bound(self, relation, column, *, clock, lag, time_zone):
        return SafeBound(upto=self.rows(NOW)[0][0])


class HastyCertification(PostgresqlCertification):
    def server(self, connection):
        return super().server(real(connection))

    def open(self, connection, schema):
        return HastyScratch(connection, schema or self.schema)


class HastyScratch(PostgresqlScratch):
    def __init__(self, connection, schema):
        super().__init__(real(connection), schema)
        self.connection = connection

    def connect_again(self):
        return HastyScratch(self.connection, self.schema)
'''
KINDS = {name.lower(): name for name in ("Truncating", "Blind", "Hasty")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    installed_package(tmp_path, name="broken_dialects", text=PLUGIN, kinds=KINDS)
    return tmp_path


def failed(folder: Path, url: str) -> set[str]:
    code, document = certify(folder, url, "--yes")
    assert code == 1
    assert document["left"] == []
    return named(document, "failed")


def test_lost_microseconds(folder: Path) -> None:
    found = failed(folder, "truncating:///new.db")
    assert "c_timestamp" in found
    assert not {"c_date", "c_text", "c_bigint", "c_time"} & found


def test_a_type_that_no_fingerprint_sees(folder: Path) -> None:
    found = failed(folder, "blind:///new.db")
    assert {each for each in found if each.startswith("c_")} == {"c_uuid"}


@pytest.mark.postgres
def test_a_bound_that_is_not_safe(folder: Path, pg_url: str) -> None:
    found = failed(folder, pg_url.replace("postgresql://", "hasty://"))
    late = "a row of a transaction that was open during a load is not lost"
    assert found == {f"{strategy}: {late}" for strategy in ("watermark", "smart_column")}
