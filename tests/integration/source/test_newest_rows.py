"""A database that was restored and written past the position before the next run is recognized by its newest rows."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from integration.source.loading import Careful
from integration.source.places import Place, at
from tidegate.core.ports.strategy import Strategy
from tidegate.errors import HistoryGone
from tidegate.strategies.smart import Smart
from tidegate.strategies.watermark import Watermark

MAKE = "CREATE TABLE orders (id integer PRIMARY KEY, name varchar(40), updated_at timestamp NOT NULL)"
FIRST = "INSERT INTO orders VALUES (1, 'a', '2025-01-01 00:00:00'), (2, 'b', '2025-01-02 00:00:00')"
BACK = "UPDATE orders SET updated_at = '2025-01-01 12:00:00' WHERE id = 2"
LATER = "INSERT INTO orders VALUES (3, 'c', '2025-01-03 00:00:00')"
LATEST = "INSERT INTO orders VALUES (4, 'd', '2025-01-04 00:00:00')"
WATERMARK = Watermark(column="updated_at")
WENT_BACK = r"of the row with id = 2, updated_at was 2025-01-02 .* and is 2025-01-01.*or updated_at was set back"


def loader_at(place: Place, strategy: Strategy) -> Careful:
    """What has loaded two rows."""
    place.run(MAKE, FIRST)
    loader = Careful(url=place.url, strategy=strategy)
    loader.load()
    assert len(loader.rows) == 2
    return loader


@at("sqlite", "duckdb", "mariadb", "postgresql")
def test_a_row_with_an_older_time_than_was_loaded_stops_the_stream(place: Place) -> None:
    loader = loader_at(place, WATERMARK)
    place.run(LATER, "UPDATE orders SET name = 'other' WHERE id = 1")
    loader.load()
    place.run(LATEST, BACK)
    with pytest.raises(HistoryGone, match=WENT_BACK):
        loader.load()


@at("sqlite")
@pytest.mark.parametrize(
    "ordinary",
    [
        ["UPDATE orders SET updated_at = '2025-01-05 00:00:00' WHERE id = 2"],
        ["DELETE FROM orders WHERE id < 3"],
        ["DELETE FROM orders WHERE id = 2"],
        ["UPDATE orders SET id = 9, updated_at = '2025-01-06 00:00:00' WHERE id = 1"],
        ["DELETE FROM orders WHERE id = 2", "INSERT INTO orders VALUES (2, 'again', '2025-01-03 00:00:00')"],
    ],
)
def test_ordinary_work_is_no_older_state(place: Place, ordinary: list[str]) -> None:
    loader = loader_at(place, WATERMARK)
    for day in (7, 8):
        place.run(*ordinary, f"INSERT INTO orders VALUES ({day}, 'new', '2025-01-{day:02} 00:00:00')")
        loader.load()
        assert loader.rows[day][1] == "new"


@at("sqlite")
@pytest.mark.parametrize(
    ("strategy", "stops"),
    [
        (Watermark(column="updated_at", lookback=timedelta(days=2)), False),
        (Watermark(column="updated_at", lookback=timedelta(hours=2)), True),
        (Smart(column="updated_at"), False),
    ],
    ids=["within the lookback", "beyond the lookback", "smart"],
)
def test_a_time_that_may_go_back_proves_nothing(place: Place, strategy: Strategy, *, stops: bool) -> None:
    loader = loader_at(place, strategy)
    place.run(LATER, BACK)
    if stops:
        with pytest.raises(HistoryGone, match="id = 2"):
            loader.load()
    else:
        loader.load()
        assert loader.rows[3][1] == "c"


@at("sqlite", "mariadb", "postgresql")
def test_a_column_of_another_type_is_not_compared(place: Place) -> None:
    loader = loader_at(place, Watermark(column="updated_at", time_zone="UTC"))
    anew = ("DROP TABLE orders", MAKE.replace("timestamp", "date"), FIRST.replace(" 00:00:00", ""))
    altered = {"mariadb": ["MODIFY updated_at date"], "postgresql": ["ALTER updated_at TYPE date"]}.get(place.kind)
    place.run(*(anew if altered is None else [f"ALTER TABLE orders {altered[0]}"]))
    with loader.source.probe(bound=loader.strategy.bound_request) as probe:
        assert probe.restore_reason(loader.position) is None


@at("sqlite")
def test_keys_of_text_are_not_kept(place: Place) -> None:
    row = "'anna@example.org', '2025-01-01 00:00:00'"
    there = place.of("mail varchar(40) PRIMARY KEY, updated_at timestamp NOT NULL", row)
    with there.probe(bound=WATERMARK.bound_request) as probe:
        assert "anna" not in json.dumps(probe.witness(("updated_at",), None))


@at("sqlite")
def test_a_column_with_a_fallback_goes_back_when_it_becomes_null(place: Place) -> None:
    place.run(MAKE.replace("NOT NULL", "NULL, created_at timestamp"))
    place.run("INSERT INTO orders VALUES (1, 'a', '2025-01-02 00:00:00', '2025-01-01 00:00:00')")
    strategy = Watermark(column="updated_at", on_null="fallback", fallback="created_at")
    loader = Careful(url=place.url, strategy=strategy)
    loader.load()
    assert "newest" not in loader.position.witness
    place.run("UPDATE orders SET updated_at = NULL")
    place.run("INSERT INTO orders VALUES (2, 'b', '2025-01-03 00:00:00', '2025-01-03 00:00:00')")
    loader.load()
    assert loader.rows[2][1] == "b"
