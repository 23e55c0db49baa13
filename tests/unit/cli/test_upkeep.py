"""The commands `maintain`, `rollback`, `history --versions` and `watch` where no row moves: no Spark is started."""

from contextlib import suppress

import pytest

from tidegate.api import Project
from tidegate.core.position import Position
from tidegate.errors import WriteError

pytestmark = pytest.mark.usefixtures("no_spark")


def test_tables_that_are_not_there_need_nothing(folder, tidegate):
    for words in (("maintain",), ("maintain", "--dry-run"), ("maintain", "orders", "--force")):
        said = tidegate(*words, "--json")
        assert said.exit_code == 0, said.err
        assert {one["outcome"] for one in said.document["streams"]} == {"unchanged"}
    said = tidegate("maintain")
    assert "orders" in said.out
    assert "unchanged" in said.out


def test_a_maintenance_that_failed_is_over_once_nothing_is_left_to_do(folder, tidegate):
    with Project.load(folder) as project:
        stream = project.streams("orders")[0]
        registry = project.registry
        registry.register(uid=stream.uid, name="orders", source="shop: orders", target=str(stream.target))
        with suppress(WriteError), registry.task(stream.uid, "maintain"):
            raise WriteError("full")
        assert registry.facts()[stream.uid].maintenance_failed["code"] == "write"
        for _ in range(2):
            assert tidegate("maintain", "orders", "--json").document["streams"][0]["outcome"] == "unchanged"
        assert registry.facts()[stream.uid].maintenance_failed is None
        assert len(registry.tasks(stream.uid, task_type="maintain")) == 2, "nothing is recorded where nothing failed"


def test_a_stream_at_work_is_held_and_the_others_go_on(folder, tidegate):
    with Project.load(folder) as project:
        stream = project.streams("orders")[0]
        project.registry.register(uid=stream.uid, name="orders", source="shop: orders", target=str(stream.target))
        with project.registry.lease(stream.uid):
            said = tidegate("maintain", "--json")
            back = tidegate("rollback", "orders", "--to", "7", "--yes", "--json")
            looked = tidegate("maintain", "--dry-run")
    assert said.exit_code == 5
    outcomes = {one["stream"]: one["outcome"] for one in said.document["streams"]}
    assert outcomes == {"orders": "held", "items": "unchanged"}
    assert (back.exit_code, back.document["error"]["code"]) == (5, "lease_held")
    assert looked.exit_code == 0, "a look needs no lease"


def test_a_rollback_wants_yes_and_something_to_go_back_to(folder, tidegate):
    said = tidegate("rollback", "orders", "--to", "7")
    assert said.exit_code == 2
    assert "--yes" in said.err
    for to, code, text in [
        ("7", "version_gone", "there is no version to roll back to"),
        ("2025-01-01T00:00:00Z", "version_gone", "the version of 2025"),
        ("yesterday", "config", "neither a version nor a time"),
        ("2025-01-01T00:00:00", "config", "no time zone"),
    ]:
        said = tidegate("rollback", "orders", "--to", to, "--yes", "--json")
        assert (said.exit_code, said.document["error"]["code"]) == (4 if code == "version_gone" else 2, code)
        assert text in said.document["error"]["message"]
    assert tidegate("rollback", "nope", "--to", "7").exit_code == 2


def test_versions_of_no_table(folder, tidegate):
    none = {"stream": "orders", "versions": [], "expired": []}
    assert tidegate("history", "orders", "--versions", "--json").document == none
    assert tidegate("history", "orders", "--versions").out == "orders: no versions yet\n"


def test_loads_whose_versions_have_expired_are_listed_for_a_rewind(folder, tidegate):
    with Project.load(folder) as project:
        stream = project.streams("orders")[0]
        project.registry.register(uid=stream.uid, name="orders", source="shop: orders", target=str(stream.target))
        for number in (1, 2):
            position = Position(sequence=number, load_id=f"{number:032}", kind="sequence", state={"value": str(number)})
            project.registry.set_position(stream.uid, position, snapshot=None, table_uuid=None, reason="a test's")
    told = tidegate("history", "orders", "--versions", "--json").document
    assert [each["load"] for each in told["expired"]] == [2, 1]
    lines = [line.split() for line in tidegate("history", "orders", "--versions").out.splitlines()[1:]]
    assert [(line[0], line[3], line[6]) for line in lines] == [("expired", "2", "no"), ("expired", "1", "no")]
    refused = tidegate("state", "rewind", "orders", "--to", "3")
    assert "`tidegate history orders --versions` lists the loads" in refused.err


def test_a_watch_of_nothing_is_refused(folder, tidegate):
    said = tidegate("watch", "--json")
    assert (said.exit_code, said.document["error"]["code"]) == (2, "config")
    assert "--every 5m" in said.document["error"]["hint"]
    assert tidegate("watch", "--every", "soon").exit_code == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("maintenance: {compact_below: 32}", "must be a size"),
        ("maintenance: {keep: 0}", "keep must be 1 or more"),
        ("maintenance: {orphans_after: 1h}", "1d or more"),
        ("maintenance: {kept: 3}", "keep"),
        ("maintenance: {statistics: 3}", "maintenance.statistics"),
        ("maintenance: {measure_by: shop}", "measure_by needs a measure_query that reads {table}"),
        ("schedule: {every: 5m, cron: '* * * * *'}", "one of `every:` and `cron:`"),
        ("schedule: {cron: 'every day'}", "five fields"),
        ("schedule: {every: 0s}", "1s or more"),
    ],
)
def test_rules_that_nobody_can_keep_are_refused_with_their_line(folder, tidegate, line, said):
    path = folder / "tidegate.yaml"
    path.write_text(path.read_text().replace("    write: append\n", f"    write: append\n    {line}\n"))
    found = tidegate("check")
    assert found.exit_code == 2
    assert said in found.err
    assert "tidegate.yaml:9" in found.err


@pytest.mark.parametrize(
    ("name", "said"), [("tree", "'tree' is not under `conn"), ("shop", "'shop' is no connection of an")]
)
def test_a_query_is_measured_by_an_engine_that_reads_the_lake(folder, tidegate, name, said):
    path = folder / "tidegate.yaml"
    rule = f"maintenance: {{measure_by: {name}, measure_query: 'SELECT 1 FROM {{table}}'}}"
    path.write_text(path.read_text().replace("    write: append\n", f"    write: append\n    {rule}\n"))
    found = tidegate("check")
    assert found.exit_code == 2
    assert f"streams.orders.maintenance.measure_by: {said}" in found.err
