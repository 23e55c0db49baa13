"""A position from which a stream continues after columns were renamed at the source, and the project corrected."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.ports.format import SinceLoad, TableState
from tidegate.core.position import Position
from tidegate.core.schema import INT, TEXT, TIMESTAMPTZ, Column, ColumnIds, Schema
from tidegate.core.source_columns import SourceColumn, SourceColumns
from tidegate.core.source_identity import check_owner
from tidegate.engine.column_names import as_loaded_last, renamed
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.writers.merge import Merge
from tidegate.writers.scd2 import Scd2

BEFORE = ("id", "at", "city")
NOW = ("nr", "changed_at", "town")
NEWEST = {"cursor": "at", "key": ["id"], "types": ["int", "timestamp"], "rows": [["1", "2025-01-01"]]}
LOADED = Position(
    sequence=4,
    load_id="a",
    kind="watermark",
    state={"cursor": ["at"], "value": "at", "method": {"method": "by_integer", "column": "id"}},
    witness={"newest": NEWEST, "greatest": "id"},
    retained={"column": "at", "begin": "2025-01-01"},
)


class Columns:
    """A probe of which only the columns are asked."""

    def __init__(self, relation: str) -> None:
        kinds = zip(NOW, (INT, TIMESTAMPTZ, TEXT), strict=True)
        ids = ColumnIds(relation=relation, columns={name: str(number) for number, name in enumerate(NOW, 1)})
        self.columns = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in kinds), ids=ids)

    def schema(self) -> Schema:
        return self.columns


def recovered(position: Position) -> RecoveryState:
    columns = tuple(SourceColumn(id=str(number), name=name, target=name) for number, name in enumerate(BEFORE, 1))
    table = TableState(
        exists=True,
        position=position,
        schema=Schema(columns=tuple(Column(name=name, type=TEXT) for name in BEFORE)),
        since_load=SinceLoad(source_columns=SourceColumns(relation="77", columns=columns)),
    )
    return RecoveryState(table=table, since=position, repair=RegistryRepair.NOTHING)


def test_a_position_calls_columns_as_the_source_does_now():
    found = renamed(recovered(LOADED), Columns("77"), Merge())
    assert found.since is not None
    check_owner(found.since, "watermark", ["changed_at"])
    assert found.since.state == {
        "cursor": ["changed_at"],
        "value": "at",
        "method": {"method": "by_integer", "column": "nr"},
    }
    assert found.since.witness == {"newest": {**NEWEST, "cursor": "changed_at", "key": ["nr"]}, "greatest": "id"}
    assert found.since.retained["column"] == "changed_at"
    # What the table and the registry have is compared with the position as it is stored.
    assert found.stored == LOADED


@pytest.mark.parametrize("options", [{"track_history": ("city",)}, {"sequence_by": ("at",)}])
def test_a_history_goes_on_that_names_the_same_columns(options):
    before = Scd2(**options)
    corrected = before.renamed(dict(zip(BEFORE, NOW, strict=True)))
    position = replace(LOADED, writer=before.signature)
    found = renamed(recovered(position), Columns("77"), corrected)
    assert found.since is not None
    assert found.since.writer == corrected.signature != before.signature
    another = renamed(recovered(position), Columns("77"), Scd2(track_history=("id",)))
    assert another.since is not None
    assert another.since.writer == before.signature


def test_the_columns_of_another_table_are_others():
    assert renamed(recovered(LOADED), Columns("78"), Merge()) == recovered(LOADED)


@dataclass(frozen=True)
class Saved:
    """A registry of one plan, and the run that has it."""

    plan_of_load: dict[str, Any]

    @property
    def registry(self) -> Any:
        return self

    def plan(self, load_id: str) -> Any:
        return SimpleNamespace(plan=self.plan_of_load) if load_id == "a" else None


def test_a_position_that_is_rewound_calls_columns_as_the_last_load_did():
    columns = [{"name": name, "ident": str(number)} for number, name in enumerate(("id", "was"), 1)]
    saved: Any = Saved({"columns": {"columns": columns}})
    earlier = replace(LOADED, state={"cursor": ["was"]}, witness={}, retained={})
    table = recovered(LOADED).table
    assert as_loaded_last(earlier, table, saved).state == {"cursor": ["at"]}
    assert as_loaded_last(replace(earlier, source="another"), table, saved).state == {"cursor": ["was"]}
    assert as_loaded_last(replace(earlier, load_id="b"), table, saved).state == {"cursor": ["was"]}
