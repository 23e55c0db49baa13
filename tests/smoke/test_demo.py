"""The demo's story on a few of its days: every figure is held against the source by other means."""

import io

import pytest
from rich.console import Console

from support.airline import some_days
from tidegate_demo.folder import Folder
from tidegate_demo.proof import prove
from tidegate_demo.record import Story
from tidegate_demo.story import play
from tidegate_demo.telling import Teller


@pytest.mark.smoke
def test_the_story_of_the_demo(spark, tmp_path):
    folder = Folder(path=tmp_path / "demo")
    folder.prepare()
    story = Story(directory=folder.path)
    teller = Teller(console=Console(file=io.StringIO()), silent=True)
    play(folder, some_days(tmp_path, [(12, day) for day in range(8, 13)]), story, teller, spark)
    assert story.problem is None
    steps = {step.name: step for step in story.steps}
    assert {name: {one["outcome"] for one in step.outcomes} for name, step in steps.items()} == {
        "first load": {"loaded"},
        "one day of changes": {"loaded"},
        "nothing changed": {"unchanged"},
        "full reload": {"loaded"},
    }
    assert all(one["verified"] for step in story.steps for one in step.outcomes if one["outcome"] == "loaded")
    assert steps["first load"].rows == sum(story.source_rows.values())
    moved = {one["stream"]: one["rows_read"] for one in steps["one day of changes"].outcomes}
    assert moved == {"flights": story.arrivals.flights, "weather": story.arrivals.weather}
    assert moved == {plan.stream: plan.rows for plan in story.plan.streams}
    assert not any(one["spark_started"] for one in steps["nothing changed"].outcomes)
    proofs = prove(folder.path, folder.database, tuple(story.source_rows))
    assert {proof.table for proof in proofs if proof.equal and proof.source.rows} == set(story.source_rows)
