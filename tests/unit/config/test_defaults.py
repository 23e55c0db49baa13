"""`defaults:` of a project and of its connections: which of them a stream gets."""

from datetime import timedelta
from pathlib import Path

import pytest

from tidegate import config
from tidegate.core.ports.format import Layout
from tidegate.errors import ConfigError


def load(text, folder: Path):
    (folder / "tidegate.yaml").write_text(text, encoding="utf-8")
    return config.load(folder, environ={"PW": "Secret77"})


def refused(text, folder: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(text, folder)
    return caught.value


DEFAULTS = """\
connections: {shop: "sqlite:///shop.db"}
defaults:
  source: {connection: shop}
  write: merge
  verify: counts
  key: id
  safety_lag: 5m
  lookback: 1h
  contract: {widen: stop, narrow: keep}
  layout: {sort_by: [id]}
streams:
  a: {source: {table: a}, target: lake.s.a, strategy: {kind: watermark, column: t, lookback: 2h}}
  b: {source: {table: b}, target: lake.s.b, strategy: full, write: replace, verify: none, key: [x, y]}
  c: {source: {table: c}, target: lake.s.c, strategy: full, contract: {widen: evolve}, layout: {partition_by: d}}
"""


def test_defaults_merge_under_each_stream(tmp_path):
    a, b, c = load(DEFAULTS, tmp_path).streams
    strategy = config.build("strategies", a.strategy)
    assert (strategy.safety_lag, strategy.lookback) == (timedelta(minutes=5), timedelta(hours=2))
    assert (a.verify.level, a.key, a.write.plain(), a.connection) == ("counts", ("id",), {"kind": "merge"}, "shop")
    assert b.strategy.plain() == {"kind": "full"}
    assert (b.verify.level, b.key, b.write.plain()) == ("none", ("x", "y"), {"kind": "replace"})
    assert (a.contract["widen"], c.contract["widen"], c.contract["narrow"]) == ("stop", "evolve", "keep")
    assert c.layout == Layout(sort_by=("id",), partition_by=("d",))


LAYERS = """\
connections:
  shop: {url: "sqlite:///shop.db", defaults: {lookback: LAST_7_DAYS, period: week}}
  mill: {url: "sqlite:///mill.db"}
defaults: {lookback: LAST_9_DAYS, strategy: {kind: checksum, method: by_date, column: day}, write: replace}
streams:
  own: {source: {connection: shop, table: a}, target: lake.s.own,
        strategy: {kind: checksum, method: by_date, column: day, lookback: LAST_3_DAYS}}
  system: {source: {connection: shop, table: b}, target: lake.s.system}
  project: {source: {connection: mill, table: c}, target: lake.s.project}
"""
INHERITED_CONNECTION = """\
connections:
  shop: {url: "sqlite:///shop.db", defaults: {deletes: {detect: key_diff}, verify: counts}}
  mill: {url: "sqlite:///mill.db"}
defaults: {source: {connection: shop}, strategy: full, write: replace}
streams:
  a: {source: {table: a}, target: lake.s.a}
  b: {source: {connection: mill, table: b}, target: lake.s.b}
"""


def test_a_connection_that_is_a_default_brings_its_own_defaults(tmp_path):
    a, b = load(INHERITED_CONNECTION, tmp_path).streams
    assert (a.connection, str(a.deletes.detect), a.verify.level) == ("shop", "key_diff", "counts")
    assert (b.connection, str(b.deletes.detect), b.verify.level) == ("mill", "none", "moved")


def test_the_object_goes_before_the_system_and_that_before_the_project(tmp_path):
    found = load(LAYERS, tmp_path)
    strategies = {stream.name: config.build("strategies", stream.strategy) for stream in found.streams}
    assert {name: strategy.lookback for name, strategy in strategies.items()} == {
        "own": "LAST_3_DAYS",
        "system": "LAST_7_DAYS",
        "project": "LAST_9_DAYS",
    }
    assert (strategies["own"].period, strategies["project"].period) == ("week", None)


def test_a_wrong_default_of_a_connection_is_told_at_its_own_line(tmp_path):
    error = refused(LAYERS.replace("LAST_7_DAYS", "LAST_7_DAYS, lokback: 1"), tmp_path)
    assert "lokback" in error.message
    assert error.message.startswith(f"{tmp_path}/tidegate.yaml:2:")


def test_a_call_goes_before_everything(tmp_path):
    from tidegate.api import Project

    text = LAYERS.replace("method: by_date, column: day,", "method: by_date, column: day, period: day,")
    (tmp_path / "tidegate.yaml").write_text(
        text.replace("week}", "week}").replace("column: day}", "column: day, period: day}")
    )
    with Project.load(tmp_path) as project:
        streams = project.streams(options={"lookback": "LAST_1_DAYS"})
        assert {stream.strategy.lookback for stream in streams} == {"LAST_1_DAYS"}
        with pytest.raises(ConfigError, match="nonsense"):
            project.streams(options={"nonsense": 1})


def test_a_wrong_default_is_told_at_its_own_line(tmp_path):
    error = refused(DEFAULTS.replace("lookback: 1h", "lookback: 1hour").replace(", lookback: 2h", ""), tmp_path)
    assert error.message.startswith(f"{tmp_path}/tidegate.yaml:8: defaults.lookback: '1hour' must be a duration")
