"""The grants that the documentation lists are enough for every strategy, and a missing one is named with its GRANT."""

import re
import time
from pathlib import Path

import psycopg
import pytest

from integration.source.loading import by_each
from support.workspace import Workspace

pytest_plugins = ["support.mariadb"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
PASSWORD = "of-the-loader"
STRATEGIES = {
    "full": ("full", "replace"),
    "smart": ("smart", "merge"),
    "snapshot_diff": ("snapshot_diff", "merge"),
    "checksum": ("checksum", "replace"),
    "watermark": ({"kind": "watermark", "column": "updated_at", "clock": "database"}, "merge"),
    "sequence": ({"kind": "sequence", "column": "id"}, "append"),
}


def documented(page: str, **names: str) -> list[str]:
    """The statements of the page's block of grants, with these names in place of those of the example."""
    text = (ROOT / "docs/sources" / page).read_text(encoding="utf-8")
    block = re.search(r"```sql\n(-- what a login needs[^`]*)```", text)
    assert block, page
    lines = [re.sub(r"\s*--.*", "", line) for line in block[1].splitlines()]
    statements = [each.strip() for each in "\n".join(lines).split(";") if each.strip()]
    for example, name in names.items():
        statements = [re.sub(rf"\b{example}\b", name, each) for each in statements]
    return statements


def project(folder: Path, url: str, table: str = "orders") -> Workspace:
    return by_each(STRATEGIES, folder, url, table=table)


def load(workspace: Workspace, spark, change) -> None:
    """Two loads of each strategy and a comparison, beside a session of another user that is open."""
    assert workspace.run(spark=spark).exit_code == 0
    change()
    time.sleep(2.2)
    report = workspace.run(spark=spark)
    assert report.exit_code == 0, [each.error for each in report.streams]
    assert {each.stream: each.outcome for each in report.streams} == dict.fromkeys(STRATEGIES, "loaded")
    with workspace.project(spark) as opened:
        assert opened.verify(level="rows").ok
    for name in STRATEGIES:
        assert len(workspace.rows(f"shop.{name}")) == 4


@pytest.mark.postgres
class TestPostgresql:
    @pytest.fixture
    def shop(self, postgres):
        name = postgres.create_database().rpartition("/")[2]
        with postgres.connect(name) as admin:
            admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            admin.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
            admin.execute(
                "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int, "
                "updated_at timestamptz NOT NULL DEFAULT now())"
            )
            admin.execute("INSERT INTO orders (amount) SELECT n FROM generate_series(1, 3) n")
        yield name
        with postgres.connect(name) as admin:
            if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'loader'").fetchone():
                admin.execute("DROP OWNED BY loader")
                admin.execute("DROP ROLE loader")
        postgres.drop_database(name)

    def test_they_are_enough(self, shop, postgres, spark, tmp_path):
        with postgres.connect(shop) as admin:
            for statement in documented("database.md", shop=shop):
                admin.execute(statement)
        with psycopg.connect(postgres.url(shop), autocommit=True) as other:
            other.execute("BEGIN")
            other.execute("SELECT 1")

            def change():
                with postgres.connect(shop) as admin:
                    admin.execute("INSERT INTO orders (amount) VALUES (4)")
                other.execute("COMMIT")

            load(project(tmp_path, postgres.url(shop, user="loader"), "public.orders"), spark, change)

    @pytest.mark.parametrize(
        ("missing", "words", "grant"),
        [
            ("GRANT SELECT", "permission denied for table orders", "GRANT SELECT ON public.orders TO loader"),
            ("GRANT CONNECT", "does not let the login into database", "GRANT CONNECT ON DATABASE {shop} TO …"),
            ("GRANT USAGE", "permission denied for schema public", "GRANT USAGE ON SCHEMA public TO loader"),
            ("GRANT pg_read_all_stats", "is hidden", "GRANT pg_read_all_stats TO loader"),
        ],
    )
    def test_one_that_is_missing_is_named(self, shop, postgres, spark, tmp_path, missing, words, grant):
        with postgres.connect(shop) as admin:
            for statement in documented("database.md", shop=shop):
                if not statement.startswith(missing):
                    admin.execute(statement)
        with psycopg.connect(postgres.url(shop), autocommit=True) as other:
            other.execute("BEGIN")
            other.execute("INSERT INTO orders (amount) VALUES (9)")
            report = project(tmp_path, postgres.url(shop, user="loader"), "public.orders").run("watermark", spark=spark)
        (outcome,) = report.streams
        assert words in outcome.error.message
        assert f"`{grant.format(shop=shop)}`" in outcome.error.hint

    def test_a_grant_names_the_schema(self, shop, postgres, spark, tmp_path):
        """Also of a name that must be quoted, and that another schema has as well."""
        with postgres.connect(shop) as admin:
            admin.execute('CREATE SCHEMA "Sales"')
            admin.execute('CREATE TABLE "Sales"."Orders" AS SELECT * FROM orders')
            admin.execute('CREATE TABLE "Orders" AS SELECT * FROM orders')
            for statement in documented("database.md", shop=shop):
                admin.execute(statement)
            admin.execute('GRANT USAGE ON SCHEMA "Sales" TO loader')
            admin.execute('GRANT SELECT ON "Orders" TO loader')
        workspace = project(tmp_path, postgres.url(shop, user="loader"), "Sales.Orders")
        (outcome,) = workspace.run("full", spark=spark).streams
        assert '`GRANT SELECT ON "Sales"."Orders" TO loader`' in outcome.error.hint


@pytest.mark.postgres
class TestSlot:
    """A replication slot, read with a login that owns nothing."""

    SLOT = "tidegate_orders"

    @pytest.fixture
    def shop(self, postgres):
        name = postgres.create_database().rpartition("/")[2]
        with postgres.connect(name) as admin:
            admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            admin.execute("CREATE TABLE orders (id int PRIMARY KEY, amount int)")
            admin.execute("INSERT INTO orders SELECT n, n FROM generate_series(1, 3) n")
        yield name
        with postgres.connect(name) as admin:
            admin.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            admin.execute("DROP OWNED BY loader")
            admin.execute("DROP ROLE loader")
        postgres.drop_database(name)

    def project(self, folder, postgres, shop):
        workspace = Workspace(folder=folder)
        source = {"connection": "shop", "slot": self.SLOT, "table": "public.orders"}
        stream = {"source": source, "target": "lake.shop.orders", "key": ["id"], "strategy": "cdc", "write": "merge"}
        workspace.write({"orders": stream}, connections={"shop": {"url": postgres.url(shop, user="loader")}})
        return workspace

    def test_they_are_enough(self, shop, postgres, spark, tmp_path):
        with postgres.connect(shop) as admin:
            for statement in documented("change_log.md", shop=shop):
                admin.execute(statement)
        workspace = self.project(tmp_path, postgres, shop)
        assert workspace.run(spark=spark).exit_code == 0
        with postgres.connect(shop) as admin:
            admin.execute("SET synchronous_commit = on")  # a log is read as far as it is on disk
            admin.execute("INSERT INTO orders VALUES (4, 4)")
            admin.execute("UPDATE orders SET amount = 20 WHERE id = 2")
            admin.execute("DELETE FROM orders WHERE id = 3")
        report = workspace.run(spark=spark)
        assert report.exit_code == 0, report.streams[0].error
        assert [tuple(row.values())[:2] for row in workspace.rows("shop.orders")] == [(1, 1), (2, 20), (4, 4)]
        with workspace.project(spark) as opened:
            assert opened.verify(level="rows").ok
        listed = workspace.cli("slot", "list", "--json")
        assert f'"name": "{self.SLOT}"' in listed.stdout, listed.stderr
        dropped = workspace.cli("slot", "drop", self.SLOT, "--yes")
        assert dropped.returncode == 0, dropped.stderr

    @pytest.mark.parametrize(
        ("missing", "words", "statement"),
        [
            (" REPLICATION", "may not use replication slots", "ALTER ROLE loader REPLICATION"),
            ("GRANT SELECT", "permission denied for table orders", "GRANT SELECT ON public.orders TO loader"),
            ("GRANT USAGE", "permission denied for schema public", "GRANT USAGE ON SCHEMA public TO loader"),
            (
                "CREATE PUBLICATION",
                "may not publish",
                'CREATE PUBLICATION "tidegate_orders" FOR TABLE "public"."orders" WITH (publish',
            ),
        ],
    )
    def test_one_that_is_missing_is_named(self, shop, postgres, spark, tmp_path, missing, words, statement):
        with postgres.connect(shop) as admin:
            for each in documented("change_log.md", shop=shop):
                if not each.startswith(missing):
                    admin.execute(each.replace(missing, "") if missing.startswith(" ") else each)
        (outcome,) = self.project(tmp_path, postgres, shop).run(spark=spark).streams
        assert words in outcome.error.message
        assert f"`{statement}" in outcome.error.hint


class TestMariadb:
    @pytest.fixture
    def shop(self, mariadb, maria_database):
        mariadb.run(
            "CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, amount int, "
            "updated_at timestamp(6) NOT NULL DEFAULT current_timestamp(6))",
            "INSERT INTO orders (amount) VALUES (1), (2), (3)",
            database=maria_database,
        )
        yield maria_database
        mariadb.run("DROP USER IF EXISTS loader@localhost")

    def granted(self, mariadb, shop, missing="nothing"):
        for statement in documented("mariadb.md", shop=shop):
            if not statement.startswith(missing):
                mariadb.run(statement.replace("'…'", f"'{PASSWORD}'").replace("'%'", "localhost"))
        return mariadb.url(shop, user="loader", password=PASSWORD)

    def test_they_are_enough(self, shop, mariadb, spark, tmp_path):
        with mariadb.connect(shop) as other:
            other.query("START TRANSACTION")
            other.query("SELECT 1 FROM orders")

            def change():
                mariadb.run("INSERT INTO orders (amount) VALUES (4)", database=shop)
                other.query("COMMIT")

            load(project(tmp_path, self.granted(mariadb, shop)), spark, change)

    @pytest.mark.parametrize(
        ("missing", "words", "grant"),
        [
            ("GRANT SELECT", "SELECT command denied|may not use it", "GRANT SELECT ON `?{shop}`?.`?orders`? TO"),
            ("GRANT PROCESS", "may not see", "GRANT PROCESS ON \\*\\.\\* TO"),
        ],
    )
    def test_one_that_is_missing_is_named(self, shop, mariadb, spark, tmp_path, missing, words, grant):
        url = self.granted(mariadb, shop, missing)
        if missing == "GRANT SELECT":  # of another table, so that the database is there for it
            mariadb.run("CREATE TABLE others (id int)", "GRANT SELECT ON others TO loader@localhost", database=shop)
        report = project(tmp_path, url).run("watermark", spark=spark)
        (outcome,) = report.streams
        assert re.search(words, outcome.error.message)
        assert re.search(grant.format(shop=shop), outcome.error.hint), outcome.error.hint
