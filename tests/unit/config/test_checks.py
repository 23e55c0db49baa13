"""How `checks:` read: short forms, long forms, and what is refused with its place."""

import pytest

from tidegate import config
from tidegate.config.checks import checks_schema, rule_of
from tidegate.core.ids import Target
from tidegate.core.policies.rules import OnFail
from tidegate.engine.assemble import assemble
from tidegate.errors import ConfigError

PROJECT = """\
connections: {{shop: "sqlite:///shop.db"}}
streams:
  orders:
    source: {{connection: shop, table: orders}}
    target: lake.shop.orders
    strategy: full
    write: replace
    checks: {checks}
"""


def read(checks, folder):
    (folder / "tidegate.yaml").write_text(PROJECT.format(checks=checks), encoding="utf-8")
    return config.load(folder).streams[0].checks


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("{not_null: id}", "not_null(id)", {"columns": ("id",)}),
        ("{not_null: [id, code]}", "not_null(id, code)", {"columns": ("id", "code")}),
        ("{kind: not_null, columns: id}", "not_null(id)", {"columns": ("id",)}),
        ("{range: amount, min: 0}", "range(amount)", {"column": "amount", "min": 0, "max": None}),
        ("{range: {column: amount, min: 0, max: 9}}", "range(amount)", {"min": 0, "max": 9}),
        ('{expression: "amount >= 0"}', "expression(amount >= 0)", {"sql": "amount >= 0"}),
        ("{accepted_values: status, values: [a, b]}", "accepted_values(status)", {"values": ("a", "b")}),
    ],
)
def test_forms(text, name, options, tmp_path):
    (node,) = read(f"[{text}]", tmp_path)
    rule = rule_of(node, str)
    assert (rule.name, rule.on_fail, rule.where) == (name, OnFail.STOP, None)
    assert {key: getattr(rule.check, key) for key in options} == options


def test_what_every_check_takes(tmp_path):
    (node,) = read('[{not_null: id, on_fail: quarantine, where: "amount > 0", name: has id}]', tmp_path)
    rule = rule_of(node, str)
    assert (rule.name, rule.on_fail, rule.where) == ("has id", OnFail.QUARANTINE, "amount > 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{not_nul: id}", "must name one kind of check; did you mean 'not_null'"),
        ("{not_null: id, range: a, min: 1}", "must name one kind of check"),
        ("{not_null: id, on_fial: warn}", "unknown key; did you mean 'on_fail'"),
        ("{not_null: id, on_fail: ignore}", "'ignore' is not one of"),
        ("{not_null: id, where: 'amount >'}", "is not a Spark SQL expression"),
        ("{accepted_values: status}", "needs the key 'values'"),
        ("{kind: nothing}", "'nothing' is not a known check"),
    ],
)
def test_refused_with_the_place(text, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as caught:
        read(f"[{text}]", tmp_path)
    assert caught.value.context["line"] == 8


def test_a_mapping_is_no_list(tmp_path):
    with pytest.raises(ConfigError, match="must be a list"):
        read("{not_null: id}", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{range: amount}", "needs `min:`, `max:` or both"),
        ("{expression: 'sum(amount) > 0'}", "uses more than one row"),
        ("{expression: 'amount > (select 1)'}", "uses more than one row"),
        ("{expression: 'true), (1 = 1'}", "is not one expression"),
        ("{expression: '1; drop table orders'}", "is not"),
        ("{accepted_values: status, values: []}", "at least one value"),
    ],
)
def test_refused_when_the_stream_is_made(text, message, tmp_path):
    (node,) = read(f"[{text}]", tmp_path)
    with pytest.raises(ConfigError, match=message):
        rule_of(node, str)


def test_what_is_said_of_a_check_holds_no_secret(tmp_path):
    """Neither whole nor cut."""
    (node,) = read(
        "[{expression: \"name <> 'of-the-shop' and code = 'of-the-shop' and 'of-the-shop' <> 'x'\"}]", tmp_path
    )
    rule = rule_of(node, lambda text: text.replace("of-the-shop", "***"))
    assert "of-the" not in rule.name + rule.redact(rule.check.reason())
    assert rule.check.sql.count("of-the-shop") == 3


def test_the_schema_of_every_kind():
    kinds = {each["title"] for each in checks_schema()["items"]["anyOf"]}
    assert {"not_null", "range", "expression", "accepted_values"} <= kinds


PARENTS = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: full
    write: replace
    checks: [{references: customer, to: TABLE}]
  customers:
    source: {connection: shop, table: customers}
    target: lake.shop.customers
    key: [id]
    strategy: full
    write: {kind: scd2, is_current: now}
  "soft_*":
    source: {connection: shop, table: "main.*"}
    target: "lake.soft.{table}"
    key: [id]
    strategy: full
    write: merge
    deletes: {apply: soft}
  "past_*":
    source: {connection: shop, table: "main.*"}
    target: "lake.past.{table}"
    key: [id]
    strategy: full
    write: scd2
"""


@pytest.mark.parametrize(
    ("table", "conditions"),
    [
        ("lake.shop.customers", ("`now`",)),
        ("lake.soft.customers", ("deleted_at IS NULL",)),
        ("lake.past.customers", ("`is_current`",)),
        ("lake.elsewhere.customers", ()),
    ],
)
def test_a_reference_knows_which_rows_of_a_streams_table_are_present(table, conditions, tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PARENTS.replace("TABLE", table), encoding="utf-8")
    read = config.load(tmp_path)
    lakes = assemble.formats(read)
    (orders,) = assemble.streams(read, lakes, assemble.Choice(names=("orders",)))
    (check,) = (rule.check for rule in orders.policies.checks)
    assert check.present(Target(lake="lake", namespace=tuple(table.split(".")[1:-1]), table="customers")) == conditions
