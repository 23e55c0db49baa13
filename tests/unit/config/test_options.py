"""A class is its own options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Literal

import pytest

from tidegate.config.nodes import from_values, parse
from tidegate.config.options import read, schema_of
from tidegate.core.ids import Connection
from tidegate.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A thing."""

    kind: ClassVar[str] = "thing"

    name: str
    lag: timedelta = timedelta(0)
    lookback: timedelta | tuple[timedelta, ...] = timedelta(0)
    columns: tuple[str, ...] = ()
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.RED
    other: Colour | None = None
    count: int | None = None
    words: Mapping[str, str | int | bool] = field(default_factory=dict)
    connection: Connection | None = None
    note: str = field(default="", metadata={"given": True})

    def __post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("count should not be 13")


def thing(**values):
    return read(Thing, from_values(values, ("thing",)))


def test_values_take_the_types_of_the_fields():
    found = thing(name="a", lag="1h", lookback=["0s", "1d"], columns="id", mode="slow", colour="green", count="7")
    assert found == Thing(
        name="a",
        lag=timedelta(hours=1),
        lookback=(timedelta(0), timedelta(days=1)),
        columns=("id",),
        mode="slow",
        colour=Colour.GREEN,
        count=7,
    )


def test_one_duration_may_stand_where_a_list_may():
    assert thing(name="a", lookback="2d").lookback == timedelta(days=2)


def test_what_the_program_gives_wins_and_is_not_validated():
    connection = Connection(name="shop", url="sqlite://")
    node = from_values({"name": "a", "connection": "shop"})
    assert read(Thing, node, connection=connection, note="mine").connection is connection


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "thing: needs the key 'name'"),
        ({"name": "a", "colum": 1}, "thing.colum: unknown key; did you mean 'columns'?"),
        ({"name": "a", "note": "x"}, "thing.note: unknown key"),
        ({"name": 5}, "thing.name: should be a text; put it in quotes"),
        ({"name": "a", "mode": "slo"}, "thing.mode: 'slo' is not one of fast, slow; did you mean 'slow'?"),
        ({"name": "a", "colour": "blue"}, "thing.colour: 'blue' is not one of red, green"),
        ({"name": "a", "lag": "5"}, "thing.lag: '5' must be a duration: a number and its unit"),
        ({"name": "a", "lookback": ["1h", "x"]}, "thing.lookback: 'x' must be a duration: a number"),
        ({"name": "a", "columns": ["a", 2]}, "thing.columns.1: should be a valid string"),
        ({"name": "a", "count": "x"}, "thing.count: should be a valid integer"),
        ({"name": None}, "thing.name: is null; put a text in quotes"),
        ({"name": "a", "words": {"nullValue": None}}, "thing.words.nullValue: is null; put a text in quotes"),
        ({"name": "a", "words": {"sep": ["x"]}}, "thing.words.sep: should be a valid string or should be"),
        ({"name": "a", "count": 13}, "thing: count should not be 13"),
    ],
)
def test_what_does_not_fit_is_named(values, message):
    with pytest.raises(ConfigError) as caught:
        thing(**values)
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message


def test_the_line_is_that_of_the_wrong_element():
    node = parse("name: a\ncolumns:\n  - a\n  - [b]\n", "p.yaml")
    with pytest.raises(ConfigError, match=r"p\.yaml:4: columns\.1"):
        read(Thing, node)


def test_the_schema_comes_from_the_same_fields():
    schema = schema_of(Thing)
    assert schema["required"] == ["name"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {
        "name",
        "lag",
        "lookback",
        "columns",
        "mode",
        "colour",
        "other",
        "count",
        "words",
        "connection",
    }
    assert schema["properties"]["lag"]["pattern"]
    assert schema["properties"]["other"]["anyOf"][0]["enum"] == ["red", "green"]
    assert "$ref" not in str(schema)
    assert schema["properties"]["mode"]["enum"] == ["fast", "slow"]
