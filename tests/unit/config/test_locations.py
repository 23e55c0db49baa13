"""Where a table may lie: `check` refuses places in which maintenance would delete what is not the table's."""

import sqlite3

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


def defaults(folder, targets, **sections):
    rest = {"source": FILES, "strategy": "full", "write": "replace"}
    streams = {f"s{number}": {"target": target, **rest} for number, target in enumerate(targets)}
    (folder / "tidegate.yaml").write_text(yaml.safe_dump({"streams": streams, **sections}))
    return folder


def complaints(folder, targets, **sections):
    try:
        with Project.load(defaults(folder, targets, **sections)) as found:
            return [error.message for stream in found.check() for error in stream.errors]
    except ConfigError as error:
        return [error.message, *map(str, error.context.get("more", ()))]


REST = {"type": "rest", "uri": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("targets", "sections", "told"),
    [
        (
            ["lake.shop.orders", "lake.shop.orders.lines"],
            {"lakes": {"lake": {"format": "delta"}}},
            "lake.shop.orders.lines and lake.shop.orders, that of stream 's0', lie in each other",
        ),
        (["lake.shop.orders.lines", "lake.shop.orders"], {}, "lie in each other"),
        (
            ["a.shop.orders", "b.shop.orders"],
            {"lakes": {"a": {"warehouse": "/w"}, "b": {"warehouse": "file:///w/", "format": "delta"}}},
            "b.shop.orders and a.shop.orders, that of stream 's0', lie in each other (/w/shop/orders and",
        ),
        (
            ["a.shop.orders", "b.x.lines"],
            {"lakes": {"a": {"warehouse": "s3://w"}, "b": {"warehouse": "s3a://w/shop/orders", "format": "delta"}}},
            "(/w/shop/orders and /w/shop/orders/x/lines)",
        ),
        (
            ["lake.ops.runs"],
            {"loads_table": "lake.ops.runs.told"},
            "lake.ops.runs and lake.ops.runs.told, the table of `loads_table:`, lie in each other",
        ),
    ],
)
def test_a_table_within_another_is_refused(tmp_path, targets, sections, told):
    found = complaints(tmp_path, targets, **sections)
    assert any(told in each for each in found), found


@pytest.mark.parametrize(
    ("targets", "sections"),
    [
        (["lake.shop.orders", "lake.shop.orders_lines", "lake.shop.more.orders", "lake.shops.orders"], {}),
        (["a.shop.orders", "b.shop.orders"], {"lakes": {"a": {"warehouse": "/w"}, "b": {"warehouse": "/w2"}}}),
        (
            ["a.shop.orders", "b.shop.orders"],
            {"lakes": {each: {"warehouse": "s3://w", "catalog": REST} for each in "ab"}},
        ),
        (
            [{"table": "lake.shop.orders", "location": "/srv/orders"}, "lake.shop.orders.lines"],
            {"lakes": {"lake": {"format": "delta"}}},
        ),
    ],
    ids=["beside each other", "two warehouses", "a catalog that places tables", "a location of its own"],
)
def test_tables_that_do_not_lie_in_each_other_are_fine(tmp_path, targets, sections):
    assert complaints(tmp_path, targets, **sections) == []


def test_a_load_of_one_of_them_is_refused_too(tmp_path):
    folder = defaults(tmp_path, ["lake.shop.orders", "lake.shop.orders.lines"])
    with pytest.raises(ConfigError, match="lie in each other"), Project.load(folder) as found:
        found.run("s0")


def test_tables_that_a_pattern_stands_for_are_looked_at_once_they_are_known(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as source:
        source.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    source.close()
    shop = {"connection": "shop", "strategy": "full", "write": "replace"}
    streams = {
        "*": {**shop, "source": {"connection": "shop", "table": "*"}, "target": "lake.shop.{table}"},
        "lines": {"source": FILES, "target": "lake.shop.orders.lines", "strategy": "full", "write": "replace"},
    }
    del streams["*"]["connection"]
    values = {"connections": {"shop": {"url": "sqlite:///shop.db"}}, "streams": streams}
    (tmp_path / "tidegate.yaml").write_text(yaml.safe_dump(values))
    with Project.load(tmp_path) as found:
        errors = [error.message for stream in found.check() for error in stream.errors]
        assert [("lie in each other" in each) for each in errors] == [True], errors
        with pytest.raises(ConfigError, match="lie in each other"):
            found.run("orders")
