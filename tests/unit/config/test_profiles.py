"""A profile is an environment of its own; what it would share with another by accident is refused."""

import pytest

from tidegate.config import from_dict, load
from tidegate.config.nodes import from_values
from tidegate.config.profiles import deep_merge
from tidegate.errors import ConfigError

STREAMS = {"a": {"source": {"connection": "shop", "table": "a"}, "target": "lake.s.a", "strategy": "full"}}
STREAMS["a"]["write"] = "replace"
BASE = {"connections": {"shop": {"url": "sqlite:///dev.db"}}, "streams": STREAMS}
OTHER = {"shop": {"url": "sqlite:///prod.db"}}


def project(folder, profile, **sections):
    return from_dict({**BASE, **sections}, folder, profile=profile, environ={})


def refused(folder, profile, **sections):
    with pytest.raises(ConfigError) as caught:
        project(folder, profile, **sections)
    return [caught.value.message, *caught.value.context.get("more", ())]


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": "text"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
        ({"a": {"type": "x", "uri": 1}}, {"a": {"type": "y"}}, {"a": {"type": "y"}}),
        ({"a": {"type": "x", "uri": 1}}, {"a": {"type": "x", "b": 2}}, {"a": {"type": "x", "uri": 1, "b": 2}}),
        ({"a": {"path": 1}}, {"a": {"format": "delta"}}, {"a": {"format": "delta"}}),
    ],
)
def test_mappings_are_merged_and_all_else_is_replaced(base, over, merged):
    assert deep_merge(from_values(base), from_values(over)).plain() == merged


def test_a_profile_has_a_registry_a_catalog_and_tables_of_its_own(tmp_path):
    profiles = {"prod": {"connections": OTHER}}
    dev, prod = project(tmp_path, None, profiles=profiles), project(tmp_path, "prod", profiles=profiles)
    assert dev.registry == f"sqlite:///{tmp_path}/.tidegate/registry.db"
    assert prod.registry == f"sqlite:///{tmp_path}/.tidegate/prod/registry.db"
    assert dev.connection("shop").url != prod.connection("shop").url
    lake = prod.lakes["lake"].plain()
    assert lake["catalog"] == {"type": "sqlite", "path": ".tidegate/prod/catalog.db"}
    assert lake["warehouse"] == f"{tmp_path}/warehouse-prod"
    assert dev.lakes["lake"].plain()["warehouse"] == f"{tmp_path}/warehouse"
    assert (dev.profile, prod.profile) == (None, "prod")


def test_a_profile_that_only_changes_spark_is_no_environment_of_its_own(tmp_path):
    profiles = {"cluster": {"spark": {"master": "yarn"}}}
    dev, cluster = project(tmp_path, None, profiles=profiles), project(tmp_path, "cluster", profiles=profiles)
    assert dev.registry == cluster.registry
    assert dev.lakes["lake"].plain() == cluster.lakes["lake"].plain()
    assert cluster.spark.master == "yarn"


def test_variables_of_its_own_make_it_an_environment(tmp_path):
    profiles = {"prod": {}}
    assert project(tmp_path, "prod", profiles=profiles).registry.endswith("/.tidegate/registry.db")
    (tmp_path / ".env.prod").write_text("DB=prod.db\n")
    assert project(tmp_path, "prod", profiles=profiles).registry.endswith("/.tidegate/prod/registry.db")


SHARED = [
    ({"registry": "postgresql://h/r"}, {"connections": OTHER}, "would share the registry of the project without"),
    ({"lakes": {"lake": {"warehouse": "s3://b/dev"}}}, {"connections": OTHER}, "would write into the tables that the"),
    ({"lakes": {"lake": {"warehouse": "s3://b/dev/"}}}, {"lakes": {"lake": {"warehouse": "s3://b/dev"}}}, "the tables"),
    (
        {"lakes": {"lake": {"catalog": {"type": "postgresql", "uri": "postgresql://h/c"}, "warehouse": "s3://b/dev"}}},
        {"lakes": {"lake": {"warehouse": "s3://b/prod"}}},
        "would write into the tables",
    ),
    (
        {"lakes": {"lake": {"catalog": {"path": "c.db"}}}},
        {"lakes": {"lake": {"warehouse": "prod"}}},
        "would write into the tables",
    ),
    (
        {"lakes": {"lake": {"catalog": {"type": "rest", "uri": "https://h"}, "warehouse": "dev"}}},
        {"connections": OTHER},
        "would write into the tables",
    ),
]


@pytest.mark.parametrize(("base", "profile", "told"), SHARED)
def test_nothing_is_shared_by_accident(base, profile, told, tmp_path):
    assert told in refused(tmp_path, "prod", **base, profiles={"prod": profile})[0]


def test_two_profiles_do_not_share_either(tmp_path):
    one = {"registry": "postgresql://h/r", "lakes": {"lake": {"warehouse": "s3://b/one"}}}
    messages = refused(tmp_path, "prod", profiles={"prod": one, "stage": one})
    assert "would share the registry of profile 'stage'" in messages[0]
    assert "the tables that profile 'stage' has in lake 'lake'" in messages[1]


@pytest.mark.parametrize(
    "profile",
    [
        {"lakes": {"lake": {"catalog": {"type": "rest", "uri": "https://h"}, "warehouse": "prod"}}},
        {"lakes": {"lake": {"catalog": {"type": "postgresql", "uri": "postgresql://h/p"}, "warehouse": "s3://b/p"}}},
    ],
)
def test_a_place_of_its_own_is_taken(profile, tmp_path):
    base = {"lakes": {"lake": {"catalog": {"type": "rest", "uri": "https://h"}, "warehouse": "dev"}}}
    assert project(tmp_path, "prod", **base, profiles={"prod": profile}).profile == "prod"


def test_a_reference_tells_environments_apart(tmp_path):
    (tmp_path / ".env").write_text("R=sqlite:///dev.db\n")
    (tmp_path / ".env.prod").write_text("R=sqlite:///prod.db\n")
    profiles = {"prod": {"connections": OTHER}}
    assert project(tmp_path, "prod", registry="${R}", profiles=profiles).registry.endswith("/prod.db")


def test_what_is_wrong_with_a_profile_is_told_without_it(tmp_path):
    profiles = {"prod": {"conections": {}, "lakes": {"laek": {}}, "connections": {"shpo": {}}}, "a/b": {}}
    assert refused(tmp_path, None, profiles=profiles) == [
        "profiles.prod.conections: unknown key; did you mean 'connections'?",
        "profiles.prod.lakes.laek: is not under `lakes:`; did you mean 'lake'?",
        "profiles.prod.connections.shpo: is not under `connections:`; did you mean 'shop'?",
        "profiles.a/b: must consist of letters, digits, _ and -",
    ]


@pytest.mark.parametrize(
    ("profiles", "told"),
    [
        ({"prod": {}, "stage": {}}, "there is no profile 'prdo'; did you mean 'prod'?"),
        ({"x": {}, "y": {}}, "there is no profile 'prdo'; known: x, y"),
        ({}, "there is no profile 'prdo'; the project has no `profiles:`"),
    ],
)
def test_an_unknown_profile(profiles, told, tmp_path):
    assert refused(tmp_path, "prdo", profiles=profiles) == [told]


def test_a_secret_of_a_profile_is_masked(tmp_path):
    (tmp_path / ".env.prod").write_text("URL=postgresql://app@h/d?sslkey=Secret77\nTOKEN=Tok-99\n")
    (tmp_path / "tidegate.yaml").write_text(
        "connections: {shop: 'sqlite:///dev.db'}\n"
        "profiles: {prod: {connections: {shop: 'https://h/${TOKEN}/d'}, registry: 'postgresql://a:Secret77@h/r'}}\n"
        "streams: {a: {source: {connection: shop, table: a}, target: lake.s.a, strategy: full, write: replace}}\n"
    )
    config = load(tmp_path, profile="prod", environ={})
    assert config.redact("Secret77 and Tok-99") == "*** and ***"
