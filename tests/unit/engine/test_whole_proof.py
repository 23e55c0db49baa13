"""Which streams can have their whole table proven, and when it is due; `due` itself is shown where it is defined."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidegate.engine import whole_proof
from tidegate.engine.stream import Policies
from tidegate.strategies.cdc import Cdc
from tidegate.strategies.files import Files
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.scd2 import Scd2
from unit.engine.sqlite_streams import bare

WEEKLY = Policies(full_every=timedelta(days=7))


@pytest.mark.parametrize(
    ("strategy", "writer", "why"),
    [
        (Watermark(column="at"), Merge(), None),
        (Watermark(column="at"), Scd2(), None),
        (Sequence(column="id"), Append(), None),
        (Files(), Append(), None),
        (Watermark(column="at"), Append(), "a copy of its source"),
        (Cdc(), Merge(), "cannot be asked"),
    ],
)
def test_a_table_that_is_no_copy_of_what_can_be_asked_is_never_proven_as_a_whole(strategy, writer, why):
    reasons = list(whole_proof.incompatibilities(bare(strategy, writer, policies=WEEKLY)))
    assert reasons == [] if why is None else why in reasons[0]
    assert not list(whole_proof.incompatibilities(bare(strategy, writer)))
