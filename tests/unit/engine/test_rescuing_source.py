"""A source that leaves columns out says of itself what its source says."""

from __future__ import annotations

from tidegate.core.ids import Connection
from tidegate.core.ports.source import Source
from tidegate.engine.rescued_columns import RescuingSource
from tidegate.sources.database import Database

# Of logs, which leave no columns out, and of a rule that is refused beside it.
NOT_FOR_IT = {"packs", "replication_slot", "retained", "captured", "retaining"}


def test_every_question_is_passed_on():
    asked = {name for name in vars(Source) if not name.startswith("_")}
    assert asked - NOT_FOR_IT <= set(vars(RescuingSource))


def test_its_rows_lie_where_those_of_its_source_do():
    source = Database(connection=Connection(name="shop", url="postgresql://me@db.example/shop"), table="public.orders")
    made = RescuingSource(source=source, lake=None, target=None, contract={}, key=())
    assert made.origin() == source.origin() is not None
