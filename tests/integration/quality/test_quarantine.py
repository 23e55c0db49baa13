"""Rows that break a rule are kept apart, exactly: what is good and what is in the quarantine is what was read."""

import json

import pytest

from tidegate.cli.app import main
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ASIDE = {"on_fail": "quarantine"}
CHECKS = [
    {"expression": "amount >= 0", **ASIDE},
    {"accepted_values": "status", "values": ["paid", "open"], **ASIDE},
]


def test_good_and_quarantined_rows_are_what_was_read(bench, spark):
    bench.stream([*CHECKS, {"not_null": "amount", "on_fail": "warn"}])
    outcome = bench.run(spark)
    assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
    assert (outcome.rows_read, outcome.rows_inserted, outcome.rows_quarantined) == (4, 2, 2)
    assert bench.good == [(1, 10), (4, None)]
    assert outcome.rows_warned == 1
    assert outcome.notes[0].startswith("2 of 4 rows that were read are in quarantine, not in the table; ")
    assert "check not_null(amount): 1 row: no value in amount; loaded, with a warning" in outcome.notes
    assert "check expression(amount >= 0): 1 row: amount >= 0 does not hold; not loaded, quarantined" in outcome.notes
    first, second = bench.kept
    assert (first["rule"], first["reason"]) == ("expression(amount >= 0)", "amount >= 0 does not hold")
    assert json.loads(second["row"]) == {
        "id": "3",
        "amount": "30",
        "status": "odd",
        "updated_at": "2025-01-01 00:00:03.123456",
    }
    assert {row["load"] for row in bench.kept} == {1}
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
    with bench.workspace.project(spark) as project:
        verified = project.verify("orders", level="rows").streams[0]
    assert (verified.error, verified.equal) == (None, True)
    assert (verified.source_rows, verified.target_rows, verified.rows_quarantined) == (4, 3, 2)


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
    bench.stream([])
    told = "orders: 2 rows loaded, 0 superseded by newer rows, 0 still in quarantine\n"
    assert said("replay", "orders") == (0, told, "")


def test_rows_are_replayed_once_they_fulfil_the_rules(bench, spark):
    bench.stream(CHECKS)
    assert bench.run(spark).rows_quarantined == 2
    with bench.workspace.project(spark) as project:
        (listed,) = project.quarantine().waiting()
        assert (listed.rows, listed.rules) == (2, {"accepted_values(status)": 1, "expression(amount >= 0)": 1})
        assert [json.loads(row["row"])["id"] for row in project.quarantine("orders").show()] == ["3", "2"]
        nothing = project.quarantine("orders").replay()
        assert (nothing.rows, nothing.waiting, nothing.exit_code, nothing.snapshot) == (0, 2, 4, None)
    assert bench.good == [(1, 10), (4, None)]
    # The rule was wrong: one row fulfils it now. Rows of keys that came meanwhile are older than the table's.
    bench.stream([CHECKS[0], {**CHECKS[1], "values": ["paid", "odd"]}])
    with bench.workspace.project(spark) as project:
        done = project.quarantine("orders").replay()
        assert (done.rows, done.superseded, done.waiting) == (1, 0, 1)
        assert done.rules == {"expression(amount >= 0)": 1}
        assert project.quarantine("orders").replay().rows == 0, "a row is replayed once"
        verified = project.verify("orders", level="rows").streams[0]
    assert (verified.equal, verified.rows_quarantined) == (True, 1)
    assert bench.good == [(1, 10), (3, 30), (4, None)]
    assert bench.run(spark).outcome is Result.UNCHANGED


def test_a_load_that_never_landed_leaves_no_row_that_counts(bench, spark):
    """As if killed between the two commits: the quarantine is written, the table is not."""
    bench.stream([CHECKS[0], {"not_null": "status"}])

    def stop(event) -> None:
        if (event.stage, event.moment) == (Stage.CHECK, Moment.DONE):
            raise RuntimeError("cut")

    assert bench.run(spark, on_event=stop).error.code == "internal"
    assert [row["load"] for row in bench.kept] == [1]
    with bench.workspace.project(spark) as project:
        assert project.quarantine().waiting()[0].rows == 0
    bench.shop.sql("update orders set amount = 7 where id = 2", "update orders set amount = -7 where id = 1")
    outcome = bench.run(spark)
    assert (outcome.error, outcome.rows_quarantined, outcome.verified) == (None, 1, True)
    assert [json.loads(row["row"])["id"] for row in bench.kept] == ["1"], "a retry overwrites what it left"
    # The same in a later load: what it would have taken back waits still.
    bench.shop.sql("update orders set amount = 1, updated_at = '2025-01-05' where id = 1")
    assert bench.run(spark, on_event=stop).error.code == "internal"
    with bench.workspace.project(spark) as project:
        assert project.quarantine().waiting()[0].rows == 1
    assert bench.run(spark).rows_quarantined == 0
    assert bench.good == [(1, 1), (2, 7), (3, 30), (4, None)]
    with bench.workspace.project(spark) as project:
        assert project.quarantine().waiting()[0].rows == 0
        assert project.verify("orders").streams[0].equal

    # A rule that stops: nothing is published, and no value is told.
    bench.shop.sql("update orders set status = null, amount = 987654, updated_at = '2025-01-06' where id < 3")
    outcome = bench.run(spark)
    assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.STOPPED, "check_failed", 4)
    assert "not_null(status): 2 rows" in outcome.error.message
    assert "987654" not in str(outcome.to_dict())
    assert bench.good == [(1, 1), (2, 7), (3, 30), (4, None)]


def test_several_rows_of_one_key_and_rows_without_one(bench, spark):
    bench.shop.sql(
        "create table moves (id integer, amount integer, updated_at timestamp)",
        "insert into moves values (1, 1, '2025-01-01'), (2, 2, '2025-01-01'), (5, 5, '2025-01-01')",
    )
    source = {"connection": "shop", "table": "moves"}
    bench.stream([CHECKS[0], {"not_null": "id", **ASIDE}], source=source)
    assert bench.run(spark).rows_inserted == 3
    bench.shop.sql(
        # The last row of key 1 is bad, a row of key 2 that is not the last one, both of key 3; two have no key.
        "insert into moves values (1, 10, '2025-01-02'), (1, -11, '2025-01-03'), (2, -20, '2025-01-02'), "
        "(2, 21, '2025-01-03'), (2, 20, '2025-01-02 12:00:00'), (3, -30, '2025-01-02'), (3, -31, '2025-01-03'), "
        "(null, 40, '2025-01-02'), (null, 41, '2025-01-03')"
    )
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified, outcome.rows_quarantined) == (None, True, 6)
    assert bench.good == [(1, 10), (2, 21), (5, 5)]
    waiting = [json.loads(row["row"])["amount"] for row in bench.kept if row["until"] is None]
    assert sorted(waiting) == ["-11", "-31", "40", "41"], "an older row of a key waits for nothing"


@pytest.mark.parametrize("write", ["append", "replace"])
def test_streams_without_a_key(bench, spark, write):
    strategy = {"kind": "sequence", "column": "id"} if write == "append" else "full"
    bench.stream([CHECKS[0], {"row_count": 1}], key=None, strategy=strategy, write=write)
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified, outcome.rows_quarantined) == (None, True, 1)
    bench.shop.sql("insert into orders values (5, -50, 'paid', '2025-01-05'), (6, 60, 'paid', '2025-01-05')")
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified) == (None, True)
    assert outcome.rows_quarantined == (1 if write == "append" else 2)
    assert [row[0] for row in bench.good] == [1, 3, 4, 6]
    assert sorted(json.loads(row["row"])["id"] for row in bench.kept if row["until"] is None) == ["2", "5"]
    with bench.workspace.project(spark) as project:
        verified = project.verify("orders").streams[0]
    assert (verified.equal, verified.source_rows, verified.rows_quarantined) == (True, 6, 2)


def test_a_rule_of_the_whole_table_that_fails_makes_no_table(bench, spark):
    bench.stream([{"row_count": {"min": 100, "of": "table"}}])
    outcome = bench.run(spark)
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "check_failed")
    assert not bench.made
    bench.stream([{"row_count": {"max": 100, "of": "table"}}])
    assert bench.run(spark).error is None
    assert bench.made


def test_rules_of_the_whole_table_and_of_other_tables(bench, spark):
    bench.shop.sql("create table states (name text)", "insert into states values ('paid')")
    orders = [
        {"unique": "amount"},
        {"row_count": {"max": 5, "of": "table"}},
        {"references": "status", "to": "lake.shop.states", "field": "name", **ASIDE},
        {"freshness": "updated_at", "max_age": "1d", "on_fail": "warn"},
    ]
    bench.stream(orders)
    missing = bench.run(spark)
    assert (missing.error.code, missing.error.exit_code) == ("config", 2)
    states = {"source": {"connection": "shop", "table": "states"}, "target": "lake.shop.states", "strategy": "full"}
    bench.stream([], **states, key=None, write="replace")
    assert bench.run(spark).rows_inserted == 1
    bench.stream(orders)
    outcome = bench.run(spark)
    assert (outcome.error, outcome.verified, outcome.rows_quarantined) == (None, True, 1)
    assert any("freshness(updated_at)" in note and "is expected" in note for note in outcome.notes)
    assert bench.good == [(1, 10), (2, -5), (4, None)]

    bench.shop.sql("insert into orders values (7, 10, 'paid', '2025-01-07')")
    outcome = bench.run(spark)
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "check_failed")
    assert "1 row of the table has duplicate values in (amount)" in outcome.error.message
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
