"""What counts as proof that the database itself sets a column of changes, and what does not."""

from __future__ import annotations

import psycopg
import pytest

from tidegate.core.ids import Connection
from tidegate.sources.database.source import table_facts

pytest_plugins = ["support.mariadb"]

TABLE = "CREATE TABLE t (id int PRIMARY KEY, note text, updated_at timestamptz NOT NULL DEFAULT {default})"
FUNCTION = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$"
TRIGGER = "CREATE TRIGGER g {when} ON t FOR EACH ROW {condition} EXECUTE FUNCTION f()"
SET = "NEW.updated_at := now();"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("default", "body", "when", "condition", "proven"),
    [
        ("now()", SET, "BEFORE UPDATE", "", False),
        ("now()", 'NEW."updated_at" = CURRENT_TIMESTAMP; -- IF only\n', "BEFORE INSERT OR UPDATE", "", True),
        ("'epoch'", "NEW.updated_at = clock_timestamp();", "BEFORE INSERT OR UPDATE", "", True),
        ("now()", f"RAISE NOTICE '{SET}';", "BEFORE INSERT OR UPDATE", "", False),
        ("now()", f"{SET} NEW.updated_at := 'epoch';", "BEFORE INSERT OR UPDATE", "", False),
        ("now()", SET, "AFTER INSERT OR UPDATE", "", False),
        ("now()", SET, "BEFORE INSERT OR UPDATE OF note", "", False),
        ("now()", SET, "BEFORE INSERT OR UPDATE", "WHEN (NEW.note IS NULL)", False),
        ("now()", f"IF NEW.note IS NULL THEN {SET} END IF;", "BEFORE INSERT OR UPDATE", "", False),
        ("now()", "NEW.updated_at := now() - interval '1 day';", "BEFORE INSERT OR UPDATE", "", False),
        ("now()", f"-- {SET}\n", "BEFORE INSERT OR UPDATE", "", False),
        ("now()", SET, "BEFORE INSERT", "", False),
    ],
)
def test_postgresql(pg_url, default, body, when, condition, proven):
    with psycopg.connect(pg_url, autocommit=True) as shop:
        shop.execute(TABLE.format(default=default))
        shop.execute(FUNCTION.format(body=body))
        shop.execute(TRIGGER.format(when=when, condition=condition))
    (found,) = table_facts(Connection(name="shop", url=pg_url))
    assert found.clocked == ({"updated_at": "trigger g"} if proven else {})


@pytest.mark.postgres
@pytest.mark.parametrize(
    "changes",
    [
        ("ALTER TABLE t ALTER updated_at TYPE timestamp",),  # now() is then the local time of whoever writes
        (
            FUNCTION.replace("f()", "back()").format(body="NEW.updated_at := OLD.updated_at;"),
            "CREATE TRIGGER z BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION back()",
        ),
    ],
    ids=["without a zone", "set back"],
)
def test_postgresql_that_undoes_a_proof(pg_url, changes):
    with psycopg.connect(pg_url, autocommit=True) as shop:
        shop.execute(TABLE.format(default="now()"))
        shop.execute(FUNCTION.format(body=SET))
        shop.execute(TRIGGER.format(when="BEFORE INSERT OR UPDATE", condition=""))
        for change in changes:
            shop.execute(change)
    (found,) = table_facts(Connection(name="shop", url=pg_url))
    assert found.clocked == {}


def test_mariadb(mariadb, maria_database):
    mariadb.run(
        "CREATE TABLE t (id int PRIMARY KEY, a timestamp DEFAULT now() ON UPDATE now(), b datetime DEFAULT now(), "
        "c datetime(6) DEFAULT now(6) ON UPDATE now(6))",
        "CREATE VIEW v AS SELECT id FROM t",
        database=maria_database,
    )
    (found,) = table_facts(Connection(name="shop", url=mariadb.url(maria_database)), f"{maria_database}.*")
    assert set(found.clocked) == {"a"}
