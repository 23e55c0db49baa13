"""When the statistics of an Iceberg table are worth computing, from metadata written by hand."""

from datetime import UTC, datetime

import pytest

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Maintenance, Upkeep
from tidegate.errors import ConfigError
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.formats.iceberg.statistics import columns, due

TARGET = Target(lake="lake", namespace=("shop",), table="orders")
FIELDS = [
    {"id": 1, "name": "id", "type": "long"},
    {"id": 2, "name": "v", "type": "string"},
    {"id": 3, "name": "tags", "type": {"type": "list", "element-id": 4, "element": "string"}},
]


def upkeep(wanted=True, *, force=False):
    now = datetime(2025, 6, 1, 12, tzinfo=UTC)
    return Upkeep(target=TARGET, uid="0" * 16, rules=Maintenance(statistics=wanted), now=now, force=force)


def table(*commits, statistics=()):
    """Snapshots 1, 2, … of a hundred rows in the end, each by its summary; statistics by snapshot."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "timestamp-ms": number,
            "summary": {"operation": "append", "total-records": "100", **summary},
        }
        for number, summary in enumerate(commits, 1)
    ]
    return Metadata(
        {
            "schemas": [{"schema-id": 0, "fields": FIELDS}],
            "current-schema-id": 0,
            "current-snapshot-id": len(commits) or None,
            "snapshots": snapshots,
            "statistics": [
                {"snapshot-id": number, "blob-metadata": [blob(field) for field in fields]}
                for number, fields in statistics
            ],
        }
    )


def blob(field):
    return {"type": "apache-datasketches-theta-v1", "fields": [field], "properties": {"ndv": "3"}}


def rows(number, **more):
    return {"added-records": str(number), **more}


def test_columns_of_lists_are_not_counted():
    assert columns(table(), upkeep()) == {"id": 1, "v": 2}
    assert columns(table(), upkeep(("v",))) == {"v": 2}
    assert columns(table(), upkeep(wanted=False)) == {}
    for strange in ("tags", "w"):
        with pytest.raises(ConfigError, match=f"names {strange}, of which table lake.shop.orders has no") as caught:
            columns(table(), upkeep(("id", strange)))
        assert "id, v" in caught.value.hint


@pytest.mark.parametrize(
    ("commits", "counted", "expected"),
    [
        ([rows(100)], [], "the table has none"),
        ([rows(100)], [(1, (1, 2))], None),
        ([rows(91), rows(9)], [(1, (1, 2))], None),
        ([rows(90), rows(10)], [(1, (1, 2))], "10 rows came or went since the last, 10% of the table"),
        # Maintenance moves rows and re-stamps positions; neither is a change.
        ([rows(100), rows(100, operation="replace"), {}], [(1, (1, 2))], None),
        ([rows(100), {"deleted-records": "6"}, {"added-position-deletes": "4"}], [(1, (1, 2))], "10 rows came or"),
        ([rows(90), rows(10)], [(1, (1, 2)), (2, (1, 2))], None),
        ([rows(100)], [(1, (1,))], "column v has none"),
        # Readers ignore the statistics of snapshots outside main's history, such as those of a load that was dropped.
        ([rows(100)], [(7, (1, 2))], "the table has none"),
        ([{"total-records": "0"}], [], None),
        ([], [], None),
    ],
)
def test_statistics_are_computed_once_a_tenth_of_the_rows_changed(commits, counted, expected):
    found = due(table(*commits, statistics=counted), upkeep())
    assert found == expected or found.startswith(expected)


def test_a_forced_maintenance_computes_them_after_any_change():
    changed, unchanged = table(rows(99), rows(1), statistics=[(1, (1, 2))]), table(rows(100), statistics=[(1, (1, 2))])
    assert due(changed, upkeep()) is None
    assert due(changed, upkeep(force=True)) == "1 row came or went since the last, 1% of the table"
    assert due(unchanged, upkeep(force=True)) is None


def test_another_blob_is_no_count_of_distinct_values():
    other = table(rows(100), statistics=[(1, (1, 2))])
    for each in other.raw["statistics"][0]["blob-metadata"]:
        each["properties"] = {}
    assert due(other, upkeep()) == "column id has none"
    assert due(other, upkeep(wanted=False)) is None


def test_delta_refuses_them_and_says_why(tmp_path):
    (problem,) = Delta(name="lake", folder=tmp_path).maintenance_problems(Maintenance(statistics=("id",)))
    assert "of Iceberg tables alone" in problem
    assert not Delta(name="lake", folder=tmp_path).maintenance_problems(Maintenance())
    by_trino = Maintenance(measure_query="SELECT 1 FROM {table}", measure_by="tree")
    assert "Iceberg tables alone" in next(iter(Delta(name="lake", folder=tmp_path).maintenance_problems(by_trino)))
    assert not Iceberg(name="lake", folder=tmp_path).maintenance_problems(by_trino)
    assert not Iceberg(name="lake", folder=tmp_path).maintenance_problems(Maintenance(statistics=True))
