"""`LocalProject.killed` leaves what a killed process leaves: nothing is cleaned up, and one run repairs it.

Every boundary, strategy, writer and format is killed so in the histories of `matrix`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.outcome import Result
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.engine.events import Moment, Stage
from tidegate.strategies.sequence import Sequence
from tidegate.testing import Crash, LocalProject, MemoryRegistry, MemorySource, crash_at
from tidegate.testing.project import TARGET
from tidegate.writers.append import Append

pytestmark = pytest.mark.spark

NUMBERS = Schema(columns=(Column(name="id", type=BIGINT, nullable=False),))


@pytest.fixture
def project(spark, tmp_path):
    """A table with two rows of three."""
    numbers = MemorySource(schema=NUMBERS, key=("id",), rows=[{"id": 1}, {"id": 2}])
    parts = {"source": numbers, "strategy": Sequence(column="id"), "writer": Append()}
    with LocalProject(**parts, spark=spark, folder=tmp_path) as project:
        project.load()
        numbers.rows.append({"id": 3})
        yield project


def left(project):
    """The branches of the table, and how many loads the registry calls unfinished."""
    uid = project.stream.uid
    return len(project.format.state(TARGET, uid).branches), len(project.registry.open_plans(uid))


@pytest.mark.parametrize("registry", ["kept", "lost"])
@pytest.mark.parametrize(
    ("boundary", "branches", "landed"),
    [((Stage.WRITE, Moment.DONE), 1, False), ((Stage.ADVANCE, Moment.PUBLISHED), 0, True)],
    ids=str,
)
def test_one_run_repairs_what_a_kill_leaves(project, boundary, branches, landed, registry):
    with project.killed(*boundary) as after:
        assert left(after) == (branches, 1)
        lost = {} if registry == "kept" else {"registry": MemoryRegistry.new(after.now)}
        with replace(after, **lost) as found:
            assert found.load().outcome is (Result.UNCHANGED if landed else Result.LOADED)
            assert found.rows() == [{"id": 1}, {"id": 2}, {"id": 3}]
            assert left(found) == (0, 0)


def test_an_interrupted_run_leaves_no_branch(project):
    with pytest.raises(Crash):
        project.run(on_event=crash_at((Stage.WRITE, Moment.DONE)))
    assert left(project)[0] == 0
    assert project.load().outcome is Result.LOADED
