"""What `tidegate check` and `check --source` tell of the mistakes that people make, all at once."""

import json
import sqlite3
from contextlib import closing

import pytest

from tidegate.cli.app import main

STREAMS = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  absent:
    source: {connection: shop, table: order}
    target: lake.shop.absent
    strategy: full
    write: replace
  repeated:
    source: {connection: shop, table: orders}
    target: lake.shop.repeated
    key: [ref]
    strategy: full
    write: merge
  versions:
    source: {connection: shop, table: orders}
    target: lake.shop.versions
    key: [ref]
    strategy: full
    write: {kind: merge, order_by: [id]}
  nothing:
    source: {connection: shop, table: orders}
    target: lake.shop.nothing
    key: [region]
    strategy: full
    write: {kind: merge, order_by: [id]}
  columns:
    source: {connection: shop, table: orders}
    target: lake.shop.columns
    key: [idd]
    strategy: {kind: checksum, method: by_integer, column: iid, modulus: 4}
    write: {kind: merge, order_by: [updated]}
    layout: {partition_by: [regon], sort_by: [refs]}
    checks: [{not_null: amuont}, {not_null: ref}]
  good:
    source: {connection: shop, table: orders}
    target: lake.shop.good
    key: [id]
    strategy: full
    write: merge
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(STREAMS, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, ref TEXT, region TEXT, "
            "amount NUMERIC(10,2), updated_at TIMESTAMP)"
        )
        database.execute("INSERT INTO orders (ref, region) VALUES ('a', 'x'), ('a', NULL), ('b', 'y')")
    return tmp_path


def checked(folder, capsys, *options):
    exit_code = main(["check", "--project", str(folder), "--json", *options])
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == exit_code
    return document


def test_the_source_is_asked_for_everything_that_the_project_names(folder, capsys):
    document = checked(folder, capsys)
    assert (document["exit_code"], [one["problems"] for one in document["streams"]]) == (0, [[]] * 6)
    document = checked(folder, capsys, "--source")
    told = {stream["name"]: stream["problems"] for stream in document["streams"]}
    assert document["exit_code"] == 2
    assert told["good"] == told["versions"] == []
    assert told["absent"] == [
        "stream 'absent': there is no table order, or this user may not see it; did you mean 'orders'?"
    ]
    assert told["repeated"][0].endswith(
        "has 3 rows and 2 different values of the key (ref), and nothing says which row of a key is the latest"
    )
    assert told["nothing"] == ["stream 'nothing': the key column 'region' of shop: orders is NULL in 1 row"]
    meant = ("id", "updated_at", "id", "amount", "region", "ref")
    assert [text.rpartition("; ")[2] for text in told["columns"]] == [f"did you mean '{name}'?" for name in meant]
    ((note,),) = (one["notes"] for one in document["streams"] if one["name"] == "versions")
    assert note.startswith("shop: orders has 3 rows and 2 different values of the key (ref); the table keeps one row")
    errors = [error for one in document["streams"] for error in one["errors"]]
    assert {error["code"] for error in errors} == {"column_missing", "duplicate_keys", "check_failed", "config"}
    assert all(error["hint"] for error in errors)
    assert main(["check", "--project", str(folder), "--source"]) == 2
    said = capsys.readouterr()
    assert "good      ok" in said.out
    assert said.err.count("did you mean 'region'?") == 1, "people see every problem once"
    assert "error[column_missing]: stream 'absent': there is no table order" in said.err


def test_a_file_with_a_mistake_hides_no_mistake_of_other_streams(folder, capsys):
    misfit = "  misfit:\n    source: {connection: shop, table: orders}\n    target: lake.shop.misfit\n"
    misfit += "    strategy: full\n    write: append\n"
    text = STREAMS.replace("order_by: [updated]", "orderby: [updated]") + misfit
    (folder / "tidegate.yaml").write_text(text.replace("key: [ref]", "keys: [ref]"), encoding="utf-8")
    document = checked(folder, capsys)
    assert [text.partition(": ")[2] for text in document["problems"]] == [
        "streams.repeated.keys: unknown key; did you mean 'key'?",
        "streams.versions.keys: unknown key; did you mean 'key'?",
        "streams.columns.write.orderby: unknown key; did you mean 'order_by'?",
    ]
    assert document["error"]["message"] == document["problems"][0]
    told = {one["name"]: one["problems"] for one in document["streams"]}
    assert "write: append would add them twice" in told["misfit"][0]
    assert told["good"] == []
