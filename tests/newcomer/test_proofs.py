"""What counts as proof that the database itself sets a column of changes, and what does not."""

from __future__ import annotations

import psycopg
import pytest

from tidegate.core.ids import Connection
from tidegate.sources.database.source import table_facts

TABLE = "CREATE TABLE t{n} (id int PRIMARY KEY, note text, updated_at timestamptz NOT NULL DEFAULT {default})"
FUNCTION = "CREATE FUNCTION f{n}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$"
TRIGGER = "CREATE TRIGGER g {when} ON t{n} FOR EACH ROW {condition} EXECUTE FUNCTION f{n}()"
SET = "NEW.updated_at := now();"


BACK = "NEW.updated_at := OLD.updated_at;"
BOTH = "BEFORE INSERT OR UPDATE"
# Of each: the default of the column, the body, time and condition of its trigger, and whether that is proof.
CASES = [
    ("now()", SET, "BEFORE UPDATE", "", False),
    ("now()", 'NEW."updated_at" = CURRENT_TIMESTAMP; -- IF only\n', BOTH, "", True),
    ("'epoch'", "NEW.updated_at = clock_timestamp();", BOTH, "", True),
    ("now()", f"RAISE NOTICE '{SET}';", BOTH, "", False),
    ("now()", f"{SET} NEW.updated_at := 'epoch';", BOTH, "", False),
    ("now()", SET, "AFTER INSERT OR UPDATE", "", False),
    ("now()", SET, "BEFORE INSERT OR UPDATE OF note", "", False),
    ("now()", SET, BOTH, "WHEN (NEW.note IS NULL)", False),
    ("now()", f"IF NEW.note IS NULL THEN {SET} END IF;", BOTH, "", False),
    ("now()", "NEW.updated_at := now() - interval '1 day';", BOTH, "", False),
    ("now()", f"-- {SET}\n", BOTH, "", False),
    ("now()", SET, "BEFORE INSERT", "", False),
]


@pytest.mark.postgres
def test_postgresql(pg_url):
    proven = {f"t{number}": case[-1] for number, case in enumerate(CASES)}
    with psycopg.connect(pg_url, autocommit=True) as shop:
        for number, (default, body, when, condition, _) in enumerate(CASES):
            shop.execute(TABLE.format(n=number, default=default))
            shop.execute(FUNCTION.format(n=number, body=body))
            shop.execute(TRIGGER.format(n=number, when=when, condition=condition))
        # What undoes a proof: a local time of whoever writes, and a trigger that sets the column back.
        for number in (20, 21):
            shop.execute(TABLE.format(n=number, default="now()"))
            shop.execute(FUNCTION.format(n=number, body=SET))
            shop.execute(TRIGGER.format(n=number, when=BOTH, condition=""))
        shop.execute("ALTER TABLE t20 ALTER updated_at TYPE timestamp")
        shop.execute(FUNCTION.format(n="back", body=BACK))
        shop.execute("CREATE TRIGGER z BEFORE UPDATE ON t21 FOR EACH ROW EXECUTE FUNCTION fback()")
    found = {each.table: each.clocked for each in table_facts(Connection(name="shop", url=pg_url))}
    proven |= {"t20": False, "t21": False}
    assert found == {name: {"updated_at": "trigger g"} if sure else {} for name, sure in proven.items()}


def test_mariadb(mariadb, maria_database):
    mariadb.run(
        "CREATE TABLE t (id int PRIMARY KEY, a timestamp DEFAULT now() ON UPDATE now(), b datetime DEFAULT now(), "
        "c datetime(6) DEFAULT now(6) ON UPDATE now(6))",
        "CREATE VIEW v AS SELECT id FROM t",
        database=maria_database,
    )
    (found,) = table_facts(Connection(name="shop", url=mariadb.url(maria_database)), f"{maria_database}.*")
    assert set(found.clocked) == {"a"}
