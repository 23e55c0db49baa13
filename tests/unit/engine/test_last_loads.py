"""Of files that several loads have read, the last load of a key counts; nobody guesses which one that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tidegate.core.manifest import LOADED, File, Manifest
from tidegate.core.position import Position
from tidegate.core.position_state import MANIFEST
from tidegate.engine.verification import expected
from tidegate.engine.verification.comparison import refuse_unknown
from tidegate.errors import PlanError
from tidegate.strategies.files import Files
from tidegate.strategies.full import Full
from tidegate.strategies.watermark import Watermark
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.scd2 import Scd2
from unit.engine.sqlite_streams import bare

LANDED = Position(sequence=3, load_id="x", kind="files", state={MANIFEST: "1"})
COPIED = Position(sequence=3, load_id="x", kind="full", state={})


@dataclass(frozen=True)
class Keys:
    """The keys that each file holds; a probe as far as it is asked."""

    keys: Mapping[str, str]

    def count(self, part, *, latest):
        assert latest.key == ("id",)
        return len({key for path in part.paths for key in self.keys[path]})


@pytest.mark.parametrize(
    ("strategy", "writer", "since", "order"),
    [
        (Files(), Merge(), LANDED, (LOADED,)),
        (Files(), Merge(order_by=("at", "no")), LANDED, (LOADED, "at", "no")),
        (Files(), Scd2(), LANDED, (LOADED,)),
        (Files(), Scd2(sequence_by=("at",)), LANDED, ("at",)),
        (Files(), Append(), LANDED, None),
        (Files(), Merge(order_by=("at",)), None, ("at",)),
        (Full(), Merge(order_by=("at",)), COPIED, ("at",)),
        (Watermark(column="at"), Merge(), COPIED, ("at",)),
    ],
)
def test_what_is_expected_of_a_key_is_ordered_by_load_where_loads_are_remembered(strategy, writer, since, order):
    rule = expected.rule(bare(strategy, writer), since)
    assert (rule.order if rule else None) == order


def ask(keys: Mapping[str, str], loads: Mapping[str, int], writer) -> None:
    manifest = Manifest.of(File(path=path, size=1, tag=path, loaded=loads.get(path, 0)) for path in keys)
    refuse_unknown(bare(Files(), writer), LANDED, manifest, Keys(keys))


@pytest.mark.parametrize(
    ("keys", "loads", "writer"),
    [
        ({"a": "12", "b": "34"}, {}, Merge()),
        ({"a": "12", "b": "23"}, {"a": 1, "b": 2}, Merge()),
        ({"a": "12", "b": "23"}, {"b": 2}, Merge()),  # what is remembered is later
        ({"a": "12", "b": "23"}, {}, Append()),
        ({"a": "12", "b": "23"}, {}, Scd2(sequence_by=("at",))),
    ],
)
def test_files_are_compared_where_the_loads_that_matter_are_remembered(keys, loads, writer):
    ask(keys, loads, writer)


@pytest.mark.parametrize(("keys", "loads"), [({"a": "12", "b": "23"}, {}), ({"a": "1", "b": "1", "c": "2"}, {"c": 4})])
def test_files_with_a_common_key_are_not_compared_where_their_loads_are_forgotten(keys, loads):
    with pytest.raises(PlanError, match="loaded last") as caught:
        ask(keys, loads, Merge())
    assert "--full-refresh" in caught.value.hint
