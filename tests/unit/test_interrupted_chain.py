"""An error whose causes lead back to itself is looked through once."""

from pathlib import Path

import pytest

from tidegate.config.nodes import Mark
from tidegate.config.options import located
from tidegate.core.ids import Connection
from tidegate.errors import ColumnMissing, ConfigError, SourceError, interrupted
from tidegate.sources.database import Database


def test_a_cycle_of_causes_ends():
    first, second = SourceError("one"), SourceError("two")
    first.__cause__, second.__cause__ = second, first
    assert not interrupted(first)
    second.__cause__ = KeyboardInterrupt()
    assert interrupted(first)


def test_a_missing_table_where_no_other_is_has_no_cycle(tmp_path: Path):
    """An error that is raised again as it is must not become its own cause."""
    source = Database(connection=Connection(name="shop", url=f"sqlite:///{tmp_path}/empty.db"), table="orders")
    (tmp_path / "empty.db").touch()
    with source.probe() as probe, pytest.raises(ColumnMissing, match="no table orders") as caught:
        probe.schema()
    assert caught.value.__cause__ is not caught.value


def test_an_error_that_has_its_place_is_raised_as_it_is():
    first = ConfigError("one", key="a.b")
    with pytest.raises(ConfigError) as caught, located(Mark(file="x.yaml", line=3, path=("c",))):
        raise first
    assert caught.value is first
    assert first.__cause__ is None
    with (
        pytest.raises(ConfigError, match=r"x.yaml:3: c: two") as placed,
        located(Mark(file="x.yaml", line=3, path=("c",))),
    ):
        raise ConfigError("two")
    assert placed.value.__cause__ is not placed.value
