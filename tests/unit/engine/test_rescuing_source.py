"""A source that leaves columns out says of itself what its source says."""

from __future__ import annotations

import pytest

from tidegate.core.ids import Connection
from tidegate.core.policies.contract import ColumnMapping
from tidegate.core.ports.source import Source
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.engine.rescued_columns import RescuingSource
from tidegate.errors import SchemaRefused
from tidegate.sources.database import Database
from tidegate.strategies.checksum import Checksum, Method
from unit.engine.sqlite_streams import Shop

# Of logs, which leave no columns out, and of a rule that is refused beside it.
NOT_FOR_IT = {"packs", "replication_slot", "retained", "captured", "retaining"}


def test_every_question_is_passed_on():
    asked = {name for name in vars(Source) if not name.startswith("_")}
    assert asked - NOT_FOR_IT <= set(vars(RescuingSource))


def test_its_rows_lie_where_those_of_its_source_do():
    source = Database(connection=Connection(name="shop", url="postgresql://me@db.example/shop"), table="public.orders")
    made = RescuingSource(source=source, lake=None, target=None, contract={}, key=(), uid="t")
    assert made.origin() == source.origin() is not None


def test_a_column_that_rows_are_found_by_is_not_cast(tmp_path):
    shop = Shop(folder=tmp_path)
    shop.sql("create table t (id integer primary key, size text)", "insert into t values (1, '7')")
    table = Schema(columns=(Column(name="id", type=BIGINT), Column(name="size", type=BIGINT)))
    with shop.stream().source.probe() as probe:
        probe.rescue.map_columns(ColumnMapping(table=table, contract={"type_change": "cast"}, key=("id",)))
        assert Checksum().detect(probe, None, None).rows == 1
        with pytest.raises(SchemaRefused, match="finds rows by it"):
            Checksum(method=Method.BY_INTEGER, column="size", modulus=9).detect(probe, None, None)
