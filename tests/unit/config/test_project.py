"""A whole project: sections, paths, streams, and every problem with its line."""

from pathlib import Path

import pytest

from tidegate import config
from tidegate.core.ports.format import Layout
from tidegate.errors import ConfigError, UnknownPlugin

BASE = """\
connections:
  shop: {url: "postgresql://app:${PW}@127.0.0.1:5432/shop"}
streams:
  orders:
    source: {connection: shop, table: public.orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: watermark, column: updated_at}
    write: merge
"""
ENVIRON = {"PW": "Secret77"}


def load(text, folder: Path, environ=ENVIRON):
    (folder / "tidegate.yaml").write_text(text, encoding="utf-8")
    return config.load(folder, environ=environ)


def refused(text, folder, environ=ENVIRON) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(text, folder, environ)
    assert "Secret77" not in str(caught.value)
    return caught.value


def changed(old, new):
    assert old in BASE
    return BASE.replace(old, new)


def test_a_small_project_is_complete(tmp_path):
    found = load(BASE, tmp_path)
    assert found.registry == f"sqlite:///{tmp_path}/.tidegate/registry.db"
    assert list(found.lakes) == ["lake"]
    assert found.lakes["lake"].plain() == {"kind": "iceberg", "warehouse": f"{tmp_path}/warehouse"}
    assert found.connections["shop"].url == "postgresql://app:Secret77@127.0.0.1:5432/shop"
    (stream,) = found.streams
    assert (stream.name, stream.target, stream.key) == ("orders", ("lake", "shop", "orders"), ("id",))
    assert stream.source.plain() == {"kind": "database", "connection": "shop", "table": "public.orders"}
    assert stream.write.plain() == {"kind": "merge"}
    assert (stream.verify.level, stream.uid, stream.connection, stream.is_pattern) == ("moved", None, "shop", False)
    assert stream.layout == Layout()
    assert stream.contract["add_column"] == "evolve"
    assert stream.contract["narrow"] == "stop"


def test_nothing_that_can_be_printed_holds_a_secret(tmp_path):
    found = load(BASE, tmp_path)
    assert "Secret77" not in repr(found)
    assert found.redact("x Secret77 y") == "x *** y"


def test_values_from_python_are_the_same_project(tmp_path):
    values = {
        "connections": {"shop": "sqlite:///shop.db"},
        "streams": {
            "orders": {
                "source": {"connection": "shop", "query": "SELECT 1 AS id"},
                "target": ["lake", "shop", "odd.name"],
                "strategy": "full",
                "write": {"kind": "replace"},
            }
        },
    }
    found = config.from_dict(values, tmp_path)
    assert found.connections["shop"].url == f"sqlite:///{tmp_path}/shop.db"
    assert found.streams[0].target == ("lake", "shop", "odd.name")
    assert found.streams[0].strategy.plain() == {"kind": "full"}
    assert str(found.streams[0].mark) == "streams.orders"


def test_a_connection_without_its_credentials_is_refused_when_somebody_needs_it(tmp_path):
    found = load(BASE.replace("${PW}", "${PWD_}"), tmp_path)
    with pytest.raises(ConfigError, match=r"connections\.shop\.url: needs the environment variable PWD_, which is not"):
        found.connection("shop")
    names = BASE.replace("app:${PW}@", "${PGUSER}:x@").replace('/shop"', '/${ABSENT}"')
    assert load(names, tmp_path, environ={"PGUSER": "orders"}).redact("stream orders") == "stream orders"
    with pytest.raises(ConfigError, match="without a `}`"):
        load(BASE.replace("${PW}", "${PW"), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: watermark", "kind: watermrk", "8: streams.orders.strategy.kind: 'watermrk' is not a known strategy"),
        ("write: merge", "write: murge", "9: streams.orders.write: 'murge' is not a known writer"),
        ("lake.shop.orders", "lak.shop.orders", "6: streams.orders.target: names the lake 'lak'"),
        (
            "lake.shop.orders",
            "lake.orders",
            "6: streams.orders.target: 'lake.orders' does not have the form lake.schema.table",
        ),
        ("lake.shop.orders", "lake..orders", "6: streams.orders.target: must be names separated by dots"),
        ("lake.shop.orders", "lake.shop.`orders", "6: streams.orders.target: must be names separated by dots"),
        ("    target: lake.shop.orders\n", "", "4: streams.orders: needs the key 'target'"),
        ("    strategy: {kind: watermark, column: updated_at}\n", "", "4: streams.orders: needs the key 'strategy'"),
        ("key: [id]", "key: [{id: 1}]", "7: streams.orders.key.0: should be a valid string"),
        ("key: [id]", "uid: a_b", "7: streams.orders.uid: must be 1 to 64 letters, digits and hyphens"),
        ("key: [id]", "verify: full", "7: streams.orders.verify: 'full' is not one of none, counts, moved"),
        ("key: [id]", "verify: {full_every: 0s}", "7: streams.orders.verify: full_every must be longer than 0"),
        ("key: [id]", "verify: {level: full}", "7: streams.orders.verify.level: 'full' is not one of none, counts,"),
        ("key: [id]", "removals: {detect: key_diff}", "7: streams.orders.removals: unknown key"),
        (
            "key: [id]",
            "contract: {narrow: evolve}",
            "7: streams.orders.contract.narrow: 'evolve' is not one of keep, stop",
        ),
        (
            "key: [id]",
            "contract: {add_column: keep}",
            "7: streams.orders.contract.add_column: 'keep' is not one of evolve, fill, rescue, discard, stop",
        ),
        ("key: [id]", "layout: {partition: a}", "7: streams.orders.layout.partition: unknown key"),
        ("updated_at}", "updated_at, lookback: 1}", "8: streams.orders.strategy.lookback: 1 must be a duration"),
        ("updated_at}", "updated_at, clock: mine}", "8: streams.orders.strategy.clock: 'mine' is not one of database,"),
        ("{url:", "{uri:", "2: connections.shop.uri: unknown key; did you mean 'url'?"),
        ('"postgresql://app:${PW}@127.0.0.1:5432/shop"', "shop", "2: connections.shop: needs a `url:`"),
        ("connections:", "registry: registry.db\nconnections:", "1: registry: must be a URL"),
        ("connections:", "lakes: {my.lake: {}}\nconnections:", "1: lakes.my.lake: must consist of letters"),
        ("connections:", "lakes: {l: {format: x}}\nconnections:", "1: lakes.l.format: 'x' is not a known format"),
        ("connections:", "spark: {master: a, remote: b}\nconnections:", "1: spark: has both `master:` and"),
        ("connections:", "defaults: {verfy: none}\nconnections:", "1: defaults.verfy: unknown key; did you mean"),
        ("  orders:\n", '  "":\n', "4: streams.: needs a name"),
        ("connections:", "streams: {}\nconnections:", "4: streams: is given twice, first in line 1"),
    ],
)
def test_what_is_wrong_names_line_key_and_the_nearest_known(old, new, message, tmp_path):
    error = refused(changed(old, new), tmp_path)
    assert error.message.startswith(f"{tmp_path}/tidegate.yaml:{message}")
    assert error.exit_code == 2
    assert error.context["line"] == int(message.partition(":")[0])


def test_an_unknown_kind_is_its_own_error(tmp_path):
    error = refused(changed("kind: watermark", "kind: watermrk"), tmp_path)
    assert isinstance(error, UnknownPlugin)
    assert error.hint.startswith("Did you mean 'watermark'? Correct tidegate.yaml")


EVERYTHING = """\
registry: postgresql://a:${NOPE}@host/registry
regsitry: x
lakes: {lake: {warehose: x}}
connections: {shop: {url: "sqlite:///shop.db"}}
streams:
  orders:
    source: {connection: shopp, tabel: orders}
    target: lake.shop.orders
    strategy: {kind: watermark, colum: x}
    write: {kind: merge, order: x}
    contract: {ad_column: evolve, widen: sto}
    checks: [{not_nul: x}, {not_null: id, onfail: stop}]
  "raw.*":
    source: {connection: shop, table: "raw_*"}
    target: "lake.{shema}.{tabel}"
    strategy: full
    write: replace
  again:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: full
    write: replace
"""


def test_every_level_of_a_file_is_told_at_once(tmp_path):
    error = refused(EVERYTHING, tmp_path)
    told = [text.removeprefix(f"{tmp_path}/tidegate.yaml:") for text in (error.message, *error.context["more"])]
    assert told == [
        "1: registry: needs the environment variable NOPE, which is not set",
        "2: regsitry: unknown key; did you mean 'registry'?",
        "3: lakes.lake.warehose: unknown key; did you mean 'warehouse'?",
        "7: streams.orders.source.connection: 'shopp' is not under `connections:`; did you mean 'shop'?",
        (
            "7: streams.orders.source: needs one of `topic:`, `slot:`, `capture_instance:`, `change_tracking:`, "
            "`envelope:`, `table:`, `query:`, `path:`, `iceberg:`, `delta:`, `dlt:`, `http:`, or the `kind:` of "
            "another source (did you mean 'table'?)"
        ),
        "9: streams.orders.strategy.colum: unknown key; did you mean 'column'?",
        "10: streams.orders.write.order: unknown key; did you mean 'order_by'?",
        "11: streams.orders.contract.ad_column: unknown key; did you mean 'add_column'?",
        "11: streams.orders.contract.widen: 'sto' is not one of evolve, stop; did you mean 'stop'?",
        "12: streams.orders.checks.0: must name one kind of check; did you mean 'not_null'?",
        "12: streams.orders.checks.1.onfail: unknown key; did you mean 'on_fail'?",
        "15: streams.raw.*.target: has {shema}, which is not a placeholder; did you mean '{schema}'?",
        "15: streams.raw.*.target: has {tabel}, which is not a placeholder; did you mean '{table}'?",
        (
            "18: streams.again.target: lake.shop.orders is also the target of stream 'orders'; give each stream its "
            "own table"
        ),
    ]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="there is no project file") as caught:
        config.load(tmp_path)
    assert "tidegate init" in caught.value.hint
    (tmp_path / "tidegate.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="is not a UTF-8 text file"):
        config.load(tmp_path / "tidegate.yaml")
    for text in ("[]", "a", "- a: 1"):
        assert "must be a mapping" in refused(text, tmp_path).message
    assert "needs `streams:`" in refused("connections: {}", tmp_path).message
    assert load("\ufeff" + BASE, tmp_path).streams, "a byte order mark is no part of the first key"


def test_patterns_keep_their_marks(tmp_path):
    text = BASE + (
        '  "raw.*":\n    source: {connection: shop, table: "public.raw_*"}\n'
        '    target: "lake.{schema}.{table}"\n    strategy: {kind: full}\n    write: replace\n'
    )
    stream = load(text, tmp_path).streams[1]
    assert stream.is_pattern
    assert stream.target == ("lake", "{schema}", "{table}")
    assert stream.source.items["table"].text() == "public.raw_*"
    assert stream.mark.line == 10


@pytest.mark.parametrize("target", ["lake.s.`odd.name`", "[lake, s, odd.name]"])
def test_names_with_dots(target, tmp_path):
    (stream,) = load(changed("lake.shop.orders", target), tmp_path).streams
    assert stream.target == ("lake", "s", "odd.name")


def test_a_uid_stands_for_one_stream(tmp_path):
    twin = BASE.partition("  orders:")[2].replace("key: [id]", "uid: x1")
    text = BASE.replace("key: [id]", "uid: x1") + "  other:" + twin
    error = refused(text, tmp_path)
    assert "also the target of stream 'orders'" in error.message
    assert all("the uid 'x1' is used by more than one stream" in told for told in error.context["more"])
    pattern = changed("orders:\n    source", '"o*":\n    uid: x\n    source').replace(
        "lake.shop.orders", "lake.s.{table}"
    )
    assert "more than one" in refused(pattern, tmp_path).message


def test_relative_places_belong_to_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    text = BASE.replace('"postgresql://app:${PW}@127.0.0.1:5432/shop"', "sqlite:///data/../shop.db")
    text += "registry: sqlite:///r.db?timeout=5\nlakes: {lake: {warehouse: w, catalog: {type: sqlite}}, s: {warehouse: 's3://b/p'}}\n"
    found = load(text, tmp_path)
    assert found.connections["shop"].url == f"sqlite:///{tmp_path}/shop.db"
    assert found.registry == f"sqlite:///{tmp_path}/r.db?timeout=5"
    assert found.lakes["lake"].items["warehouse"].text() == f"{tmp_path}/w"
    assert found.lakes["s"].items["warehouse"].text() == "s3://b/p"


def test_a_remote_catalog_decides_where_its_tables_lie(tmp_path):
    text = BASE + "lakes: {lake: {catalog: {type: rest, uri: 'http://127.0.0.1:8181'}}}\n"
    assert load(text, tmp_path).lakes["lake"].get("warehouse") is None
    named = load(text.replace("{catalog", "{warehouse: prod, catalog"), tmp_path)
    assert named.lakes["lake"].items["warehouse"].text() == "prod"


def test_spark_settings_become_sparks_texts(tmp_path):
    conf = "spark.ui.enabled: true, spark.driver.cores: 2, spark.driver.memory: 1g"
    found = load(BASE + f"spark: {{master: 'local[2]', conf: {{{conf}}}}}\n", tmp_path).spark
    texts = {"spark.ui.enabled": "true", "spark.driver.cores": "2", "spark.driver.memory": "1g"}
    assert (found.master, found.remote, found.conf) == ("local[2]", None, texts)


def test_one_lake_is_there_without_a_word(tmp_path):
    lake = config.build("formats", load(BASE, tmp_path).lakes["lake"], name="lake", folder=tmp_path)
    assert lake.kind == "iceberg"


def test_a_source_gets_its_connection_from_the_program(tmp_path):
    found = load(BASE, tmp_path)
    source = config.build("sources", found.streams[0].source, connection=found.connections["shop"])
    assert source.connection.url.startswith("postgresql://")
    assert source.table == "public.orders"


def test_a_plugin_that_refuses_its_options_says_where(tmp_path):
    found = load(changed("table: public.orders", "table: a, query: b"), tmp_path)
    with pytest.raises(ConfigError, match=r"tidegate\.yaml:5: streams\.orders\.source: a database source needs either"):
        config.build("sources", found.streams[0].source, connection=found.connections["shop"])


@pytest.mark.parametrize("more", ["", ", catalog: {type: spark}", ", warehouse: ./warehouse"])
def test_a_delta_lake_lies_in_the_projects_folder_with_or_without_a_catalog(tmp_path, more):
    found = load(BASE + f"lakes: {{lake: {{format: delta{more}}}}}\n", tmp_path)
    lake = config.build("formats", found.lakes["lake"], name="lake", folder=tmp_path)
    assert (lake.kind, lake.warehouse) == ("delta", f"file://{(tmp_path / 'warehouse').resolve()}")
