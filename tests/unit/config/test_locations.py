"""Where a table may lie: `check` refuses places in which maintenance would delete what is not the table's."""

import pytest
import yaml

from tidegate.api import Project
from tidegate.core.ids import Target
from tidegate.errors import ConfigError

FILES = {"path": "in/*.csv", "columns": {"id": "bigint"}}


def project(folder, *locations, **sections):
    streams = {
        f"s{number}": {
            "source": FILES,
            "target": {"table": f"lake.x.t{number}", "location": location},
            "strategy": "full",
            "write": "replace",
        }
        for number, location in enumerate(locations)
    }
    values = {"lakes": {"lake": {"format": "delta"}}, "streams": streams, **sections}
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(values))
    return folder


@pytest.mark.parametrize(
    ("locations", "sections", "told"),
    [
        (["a/b", "a/b/c"], {}, "and that of stream 's1' lie in each other"),
        (["a/b", "a/b"], {}, "and that of stream 's1' lie in each other"),
        (["warehouse/x"], {}, "and the warehouse of lake 'lake'"),
        (["."], {}, "and the warehouse of lake 'lake'"),
        (["s3a://b/x"], {}, "is in another store than lake 'lake'"),
        (
            ["s3a://b/w/x"],
            {"lakes": {"lake": {"format": "delta", "warehouse": "s3a://b/w"}}},
            "and the warehouse of lake 'lake' (s3a://b/w)",
        ),
        (
            ["s3://b/x"],
            {"lakes": {"lake": {"warehouse": "s3://b/w", "catalog": {"type": "rest", "uri": "http://127.0.0.1:1"}}}},
            "is tested with Delta lakes, and with Iceberg catalogs of type sqlite and postgresql alone",
        ),
        (["/"], {}, "must be a folder, such as s3://bucket/folder"),
    ],
)
def test_a_place_that_is_not_the_tables_alone_is_refused(tmp_path, locations, sections, told):
    with pytest.raises(ConfigError) as caught, Project.load(project(tmp_path, *locations, **sections)) as found:
        found.check()
    assert told in str([caught.value.message, *caught.value.context.get("more", ())])


def test_a_pattern_has_no_place_and_a_target_needs_its_table(tmp_path):
    for target, told in (
        ({"table": "lake.x.{table}", "location": "a"}, "is one place for all matching tables"),
        ({"location": "a"}, "needs the key 'table'"),
        ({"table": "lake.x.t", "place": "a"}, "unknown key"),
    ):
        name = "s*" if "{table}" in target.get("table", "") else "s"
        stream = {"source": FILES, "target": target, "strategy": "full", "write": "replace"}
        (tmp_path / "tidegate.yaml").write_text(yaml.safe_dump({"streams": {name: stream}}))
        with pytest.raises(ConfigError, match=told), Project.load(tmp_path) as found:
            found.check()


def test_an_environment_of_its_own_has_no_place_of_another(tmp_path):
    prod = {"registry": "sqlite:///prod.db", "lakes": {"lake": {"warehouse": "./prod"}}}
    with (
        pytest.raises(ConfigError, match="would be the same place in the environment 'prod'"),
        Project.load(project(tmp_path, "a/b", profiles={"prod": prod}), profile="prod") as found,
    ):
        found.check()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_places_are_those_of_the_tables_in_every_command(tmp_path, kind):
    lakes = {"lake": {"format": kind}}
    with Project.load(project(tmp_path, "a/b", "/srv/c/", lakes=lakes)) as found:
        lake = found.lakes["lake"]
        assert lake.locations == {
            Target(lake="lake", namespace=("x",), table="t0"): f"file://{tmp_path}/a/b",
            Target(lake="lake", namespace=("x",), table="t1"): "file:///srv/c",
        }
        assert [one.target for one in found.check()] == ["lake.x.t0", "lake.x.t1"]
