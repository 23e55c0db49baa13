"""Rows that break a rule are kept apart, exactly: what is good and what is in the quarantine is what was read."""

import json
from collections import Counter

import pytest

from integration.quality.conftest import ASIDE, CHECKS
from support.no_spark import without_spark
from tidegate.cli.app import main
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = pytest.mark.spark
iceberg = pytest.mark.parametrize("bench", ["iceberg"], indirect=True)


def waiting(bench) -> dict[str, int]:
    """By rule, as the project tells it."""
    with without_spark(), bench.workspace.project() as project:
        (listed,) = project.quarantine("orders").waiting()
        (status,) = project.status()
    assert (status.rows_quarantined, status.problem) == (listed.rows, None)
    return listed.rules


def kept(bench, load: int) -> dict[str, int]:
    """By rule, as an independent reader counts at the load of that number."""
    rows = (row for row in bench.kept if row["load"] <= load)
    return dict(Counter(row["rule"] for row in rows if row["until"] is None or row["until"] > load))


def test_good_and_quarantined_rows_are_what_was_read(bench, spark):
    bench.stream([*CHECKS, {"not_null": "amount", "on_fail": "warn"}])
    outcome = bench.run(spark)
    assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
    assert (outcome.rows_read, outcome.rows_inserted, outcome.rows_quarantined, outcome.rows_warned) == (4, 2, 2, 1)
    assert bench.good == [(1, 10), (4, None)]
    assert outcome.notes[0].startswith("2 of 4 rows that were read are in quarantine, not in the table; ")
    assert "check not_null(amount): 1 row: no value in amount; loaded, with a warning" in outcome.notes
    assert "check expression(amount >= 0): 1 row: amount >= 0 does not hold; not loaded, quarantined" in outcome.notes
    first, second = bench.kept
    assert (first["rule"], first["reason"]) == ("expression(amount >= 0)", "amount >= 0 does not hold")
    moment = "2025-01-01 00:00:03.123456"
    assert json.loads(second["row"]) == {"id": "3", "amount": "30", "status": "odd", "updated_at": moment}
    assert bench.run(spark).outcome is Result.UNCHANGED

    # Corrected at the source, a row is read again and waits no more; another comes to wait.
    bench.shop.sql(
        "update orders set amount = 5, updated_at = '2025-01-02' where id = 2",
        "update orders set amount = -1, updated_at = '2025-01-03' where id = 1",
    )
    outcome = bench.run(spark)
    assert (outcome.error, outcome.rows_quarantined, outcome.verified, outcome.rows_read) == (None, 1, True, 2)
    assert bench.good == [(1, 10), (2, 5), (4, None)], "the last good row of a key stays"
    assert [(json.loads(row["row"])["id"], row["load"], row["until"]) for row in bench.kept] == [
        ("2", 1, 2),
        ("3", 1, None),
        ("1", 2, None),
    ]
    assert waiting(bench) == kept(bench, 2) == {"accepted_values(status)": 1, "expression(amount >= 0)": 1}
    with bench.workspace.project(spark) as project:
        verified = project.verify("orders", level="rows").streams[0]
    assert (verified.error, verified.equal) == (None, True)
    assert (verified.source_rows, verified.target_rows, verified.rows_quarantined) == (4, 3, 2)


@pytest.mark.parametrize("boundary", [(Stage.CHECK, Moment.DONE), (Stage.VERIFY, Moment.START)])
def test_of_a_load_that_never_landed_no_row_counts(bench, spark, boundary):
    """Killed between the two commits, or before what was written is published; Delta publishes it when it writes."""
    bench.stream(CHECKS)
    assert bench.run(spark).rows_quarantined == 2
    bench.shop.sql(
        "update orders set amount = 5, updated_at = '2025-01-02' where id = 2",
        "insert into orders values (5, 50, 'odd', '2025-01-03'), (6, 60, 'odd', '2025-01-03')",
    )
    with pytest.raises(Crash):
        bench.run(spark, on_event=crash_at(boundary))
    landed = 2 if bench.format == "delta" and boundary[0] is Stage.VERIFY else 1
    assert {row["load"] for row in bench.kept} == {1, 2}
    assert waiting(bench) == kept(bench, landed)
    if landed == 1:
        bench.shop.sql("update orders set status = 'paid' where id = 6")
        outcome = bench.run(spark)
        assert (outcome.error, outcome.verified) == (None, True)
        assert outcome.rows_quarantined == 1, "a retry overwrites what it left"
        assert sorted(json.loads(row["row"])["id"] for row in bench.kept if row["until"] is None) == ["3", "5"]
        assert bench.good == [(1, 10), (2, 5), (4, None), (6, 60)]


@iceberg
def test_commands_list_show_and_replay_them(bench, spark, capsys):
    def said(*words):
        code = main(["quarantine", *words, "--project", str(bench.workspace.folder)])
        return code, *capsys.readouterr()

    bench.stream(CHECKS)
    assert bench.run(spark).rows_quarantined == 2
    rules = {"accepted_values(status)": 1, "expression(amount >= 0)": 1}
    assert "expression(amount >= 0)" in said("list")[1]
    listed = {"stream": "orders", "table": "lake.shop.orders__tidegate_quarantine", "rows": 2, "rules": rules}
    assert json.loads(said("list", "--json")[1]) == {"streams": [listed]}
    assert '"status":"odd"' in said("show", "orders", "--limit", "2")[1]
    assert len(json.loads(said("show", "orders", "--limit", "1", "--json")[1])["rows"]) == 1
    code, _, err = said("replay", "orders")
    assert (code, "error[check_failed]: orders: rows still fail" in err) == (4, True)
    document = json.loads(said("replay", "orders", "--json")[1])
    assert (document["waiting"], document["rows"], document["rules"]) == (2, 0, rules)
    # A rule was wrong: one row fulfils it now, and is replayed once.
    bench.stream([CHECKS[0], {**CHECKS[1], "values": ["paid", "odd"]}])
    with bench.workspace.project(spark) as project:
        done = project.quarantine("orders").replay()
        assert (done.rows, done.waiting, done.rules) == (1, 1, {"expression(amount >= 0)": 1})
        assert project.quarantine("orders").replay().snapshot is None
        verified = project.verify("orders", level="rows").streams[0]
    assert (verified.equal, verified.rows_quarantined, bench.good) == (True, 1, [(1, 10), (3, 30), (4, None)])
    bench.stream([])
    told = "orders: 1 row loaded, 0 superseded by newer rows, 0 still in quarantine\n"
    assert said("replay", "orders") == (0, told, "")


@iceberg
def test_several_rows_of_one_key_and_rows_without_one(bench, spark):
    bench.shop.sql(
        "create table moves (id integer, amount integer, place integer, updated_at timestamp)",
        "insert into moves values (1, 1, 1, '2025-01-01'), (2, 2, 1, '2025-01-01'), (5, 5, 1, '2025-01-01')",
    )
    rules = [CHECKS[0], {"not_null": "id", **ASIDE}]
    more = {
        "source": {"connection": "shop", "table": "moves"},
        "write": {"kind": "merge", "order_by": ["place"]},  # of one cursor, it says which is later
    }
    bench.stream(rules, **more)
    assert bench.run(spark).rows_inserted == 3
    bench.shop.sql(
        # The last row of key 1 is bad, a row of key 2 that is not the last one, both of key 3; two have no key.
        "insert into moves values (1, 10, 1, '2025-01-02'), (1, -11, 2, '2025-01-02'), (2, -20, 1, '2025-01-02'), "
        "(2, 21, 1, '2025-01-03'), (2, 20, 2, '2025-01-02'), (3, -30, 1, '2025-01-02'), (3, -31, 2, '2025-01-02'), "
        "(null, 40, 1, '2025-01-02'), (null, 41, 1, '2025-01-03')"
    )
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified, outcome.rows_quarantined) == (None, True, 6)
    assert bench.good == [(1, 10), (2, 21), (5, 5)]
    assert bench.waiting == [-31, -11, 40, 41], "an older row of a key waits for nothing"
    bench.stream(rules[1:], **more)
    assert bench.replay(spark).rows == 2
    assert bench.good == [(1, -11), (2, 21), (3, -31), (5, 5)]
    bench.stream(rules, source=more["source"])
    bench.shop.sql("insert into moves values (7, 1, 1, '2025-01-04'), (7, -2, 2, '2025-01-04')")
    assert bench.run(spark).error.code == "duplicate_keys", "nothing orders a good and a bad row"


def test_rules_of_the_whole_table_and_of_other_tables(bench, spark):
    bench.stream([{"row_count": {"min": 100, "of": "table"}}])
    outcome = bench.run(spark)
    assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.STOPPED, "check_failed", 4)
    assert not bench.made
    bench.shop.sql("create table states (name text)", "insert into states values ('paid')")
    orders = [
        {"unique": "amount"},
        {"row_count": {"max": 5, "of": "table"}},
        {"references": "status", "to": "lake.shop.states", "field": "name", **ASIDE},
        {"freshness": "updated_at", "max_age": "1d", "on_fail": "warn"},
        {"not_null": "status"},
    ]
    bench.stream(orders)
    missing = bench.run(spark)
    assert (missing.error.code, missing.error.exit_code) == ("config", 2)
    states = {"source": {"connection": "shop", "table": "states"}, "target": "lake.shop.states", "strategy": "full"}
    bench.stream([{"row_count": 1}], **states, key=None, write="replace")
    assert bench.run(spark).rows_inserted == 1
    bench.stream(orders)
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified, outcome.rows_quarantined) == (None, True, 1)
    assert any("freshness(updated_at)" in note and "is expected" in note for note in outcome.notes)
    assert bench.good == [(1, 10), (2, -5), (4, None)]

    bench.shop.sql("insert into orders values (7, 10, 'paid', '2025-01-07'), (6, 987654, null, '2025-01-07')")
    outcome = bench.run(spark)
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "check_failed")
    assert "not_null(status): 1 row" in outcome.error.message
    assert "987654" not in str(outcome.to_dict()), "no value is told"
    bench.shop.sql("delete from orders where id = 6")
    assert "1 row of the table has duplicate values in (amount)" in bench.run(spark).error.message
    # Of two rows that exchange their values none repeats one, once the load has landed.
    bench.shop.sql(
        "delete from orders where id = 7",
        "update orders set amount = case id when 1 then -5 else 10 end, updated_at = '2025-01-08' where id in (1, 2)",
    )
    assert bench.run(spark).error is None
    assert bench.good == [(1, -5), (2, 10), (4, None)]
    bench.shop.sql(
        "insert into orders values (8, 80, 'paid', '2025-01-09'), (9, 90, 'paid', '2025-01-09'), "
        "(10, 100, 'paid', '2025-01-09')"
    )
    assert "has 6 rows; at most 5" in bench.run(spark).error.message
    assert len(bench.good) == 3
