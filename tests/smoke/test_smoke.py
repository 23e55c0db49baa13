"""The product with a real Spark, in one session: every strategy with every writer on both formats, and the demo.

Tables are read back by PyIceberg, delta-rs and DuckDB, and compared with a model.
"""

import io

import pytest
from rich.console import Console

from smoke.pairs import accepted, damaged, parts
from support.airline import some_days
from tidegate_demo.folder import Folder
from tidegate_demo.proof import prove
from tidegate_demo.record import Story
from tidegate_demo.story import play
from tidegate_demo.telling import Teller

pytest_plugins = ["matrix.grounds"]
FORMATS = ("iceberg", "delta")
PARTS = {name: list(parts(name)) for name in FORMATS}


@pytest.mark.parametrize("table_format", FORMATS)
def test_every_pair_of_strategy_and_writer_is_run(table_format):
    assert set().union(*(part.pairs for part in PARTS[table_format])) == accepted(table_format)


@pytest.mark.smoke
@pytest.mark.parametrize("part", [*PARTS["iceberg"], *PARTS["delta"]], ids=str)
def test_tables_are_what_their_histories_say(part, grounds):
    assert not (failures := part.play(grounds)), failures


@pytest.mark.smoke
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_damaged_table_is_found_and_repaired(table_format, grounds):
    failures = damaged(table_format).play(grounds, ("tamper", 2), ("verify", "rows"), ("repair", None))
    assert not failures, failures


@pytest.mark.smoke
def test_the_story_of_the_demo(spark, tmp_path):
    """On a few of its days: every figure is held against the source by other means."""
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
