"""What `certify` refuses before it creates anything."""

import sqlite3
from contextlib import closing

import pytest

SECRET = "s3cr3t-of-mine"


def test_without_yes_it_says_what_it_would_create(tidegate, tmp_path):
    said = tidegate("certify", "sqlite:///new.db")
    assert said.exit_code == 2
    assert "certify creates tables tidegate_types, tidegate_orders, tidegate_events" in said.err
    assert "schema main, which does not exist yet, on SQLite 3" in said.err
    assert "--yes" in said.err
    assert tidegate("certify", "nonsense").exit_code == 2
    assert "schema" in tidegate("certify", "sqlite:///new.db", "--schema", "other").err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("--yes",), ("--clean", "--yes")])
def test_a_file_with_a_table_is_refused_and_untouched(tidegate, folder, words):
    before = (folder / "shop.db").read_bytes()
    said = tidegate("certify", "sqlite:///shop.db", *words)
    assert said.exit_code == 2
    assert "schema main is not empty: it has items and 1 more" in said.err
    assert (folder / "shop.db").read_bytes() == before


def test_what_an_earlier_one_left_is_named_and_removed_only_with_yes(tidegate, tmp_path):
    marker = f"tidegate_certify_{'0' * 32}"
    with closing(sqlite3.connect(tmp_path / "left.db")) as database, database:
        database.execute("CREATE TABLE tidegate_orders (id INTEGER)")
        database.execute(f"CREATE TABLE {marker} (id INTEGER, made TEXT)")
        database.execute(f"INSERT INTO {marker} VALUES (1, 'tidegate_orders')")
    said = tidegate("certify", "sqlite:///left.db", "--yes")
    assert said.exit_code == 2
    assert f"holds what an earlier certification left: {marker}, tidegate_orders" in said.err
    assert "--clean --yes" in said.err
    assert tidegate("certify", "sqlite:///left.db", "--clean").exit_code == 2
    said = tidegate("certify", "sqlite:///left.db", "--clean", "--yes", "--json")
    assert (said.exit_code, said.document["left"]) == (0, [])
    assert {marker, "tidegate_orders"} == set(said.document["removed"])
    assert "--yes" in tidegate("certify", "sqlite:///left.db").err


@pytest.mark.parametrize("name", ["tidegate_orders", "tidegate_of_mine"])
def test_a_table_that_no_marker_names_is_refused_and_stays(tidegate, tmp_path, name):
    with closing(sqlite3.connect(tmp_path / "left.db")) as database, database:
        database.execute(f"CREATE TABLE {name} (id INTEGER)")
    said = tidegate("certify", "sqlite:///left.db", "--clean", "--yes")
    assert said.exit_code == 2
    assert f"is not empty: it has {name}" in said.err
    with closing(sqlite3.connect(tmp_path / "left.db")) as database:
        assert database.execute("SELECT name FROM sqlite_schema").fetchall() == [(name,)]


@pytest.mark.parametrize("url", [f"postgresql://me:{SECRET}@127.0.0.1:1/shop", f"mariadb://me:{SECRET}@127.0.0.1:1/x"])
def test_a_server_that_does_not_answer_is_told_without_the_password(tidegate, url):
    for words in ((), ("--json",), ("--log-level", "debug")):
        said = tidegate("certify", url, "--yes", *words)
        assert said.exit_code == 1
        assert SECRET not in said.out + said.err
        assert "127.0.0.1:1" in said.out + said.err
