"""Hooks after every command that changes what readers see: once each, and after none that changes nothing."""

import pytest

from support.lake import QUICK
from support.webhooks import receiver
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.backfill.backfill import Request

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

CHECK = {"checks": [{"expression": "name <> 'bad'", "on_fail": "quarantine"}]}
KEEP = {"retain": {"column": "day", "keep": "5000d"}, "deletes": {"detect": "key_diff", "max_fraction": 0.9}}


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_each_command_that_changes_what_readers_see_runs_the_hook_once(tmp_path, spark, kind):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer primary key, name text, at timestamp, day date)")
    days = ", ".join(f"({n}, 'n', '2025-01-{n:02} 00:00:00.000000', '20{n:02}-01-01')" for n in range(1, 21))
    shop.sql(f"insert into t values {days}")

    with receiver(200) as (url, got, _):

        def written(**more) -> None:
            stream = {
                "source": {"connection": "shop", "table": "t"},
                "target": "lake.out.t",
                "key": ["id"],
                "strategy": {"kind": "watermark", "column": "at"},
                "write": "merge",
                "layout": {"partition_by": ["day"]},
                "after_publish": [{"webhook": url}],
                **more,
            }
            lakes = {"lake": {"format": kind}}
            workspace.write({"t": stream}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark={"conf": QUICK})

        def calls(act) -> int:
            """How often the hook ran; a run after it finds nothing to do, for the hook neither."""
            before = len(got)
            with workspace.project(spark) as project:
                act(project)
            ran = len(got) - before
            (outcome,) = workspace.run("t", spark=spark).streams
            assert (outcome.error, outcome.outcome, len(got) - before) == (None, Result.UNCHANGED, ran)
            return ran

        def loaded(project) -> None:
            project.run("t").raise_on_failure()

        written()
        assert calls(loaded) == 1

        shop.sql("update t set name = 'late' where id between 4 and 11")
        request = Request(begin="2025-01-04", end="2025-01-12", chunk=2)
        assert calls(lambda project: project.backfills.start("t", request)) == 1

        shop.sql("update t set name = 'unseen' where id = 12")
        assert calls(lambda project: project.verify("t", level="rows")) == 0
        assert calls(lambda project: project.verify("t", level="rows", repair=True).raise_on_failure()) == 1

        assert calls(lambda project: project.maintain("t", force=True)) == 0, "compaction leaves rows as they are"
        written(**CHECK)
        shop.sql("update t set name = 'bad', at = '2025-02-01 00:00:00.000000' where id = 20")
        assert calls(loaded) == 1
        written()
        assert calls(lambda project: project.quarantine("t").replay()) == 1

        written(**KEEP)
        assert calls(lambda project: project.maintain("t", force=True)) == 1, "rows were dropped"
        assert len({each.body["load_id"] for each in got}) == len(got), "one call for each load"

        with workspace.project(spark) as project:
            oldest = [each for each in project.versions("t") if each.load][-1]
            project.rollback("t", oldest.id)
        *before, again = got
        (first,) = [each for each in before if each.body["load_id"] == again.body["load_id"]]
        assert again.body["published_at"] > first.body["published_at"], (
            "a receiver can tell it from the call that it has seen"
        )
