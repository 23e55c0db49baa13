"""The smoke project on Iceberg, read back by PyIceberg and DuckDB."""

import pytest

from smoke.pairs import accepted, parts

pytest_plugins = ["matrix.grounds"]
PARTS = list(parts("iceberg"))


def test_every_pair_of_strategy_and_writer_is_run():
    assert set().union(*(part.pairs for part in PARTS)) == accepted("iceberg")


@pytest.mark.smoke
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_tables_are_what_their_histories_say(part, grounds):
    assert not (failures := part.play(grounds)), failures
