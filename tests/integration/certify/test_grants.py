"""The grants that the page lists are enough for a certification, and what is missing is said with its statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.certify import certify, named

if TYPE_CHECKING:
    from support.mariadb import MariadbServer
    from support.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the whole kit
PAGE = Path(__file__).parents[3] / "docs" / "sources" / "certify.md"
PASSWORD = "of-the-loader"


def documented(database: str, **names: str) -> list[str]:
    """The statements in the database's row of the table, with these names in place of those of the example."""
    (row,) = re.findall(rf"^\| {database}[^|]*\| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    statements = [double or single for double, single in re.findall(r"``(.+?)``|`([^`]+)`", row)]
    found = [each for each in statements if each.startswith(("GRANT", "ALTER"))]
    for example, name in names.items():
        found = [re.sub(rf"\b{example}\b", name, each) for each in found]
    return found


def certified(folder: Path, url: str) -> dict[str, str]:
    """Nothing failed, and nothing is left; the cases that are not supported, but those of types, with the reasons."""
    code, document = certify(folder, url, "--yes")
    assert named(document, "failed") == set(), document["cases"]
    assert (code, document["left"]) == (0, [])
    return {
        case["name"]: case["detail"]
        for case in document["cases"]
        if case["state"] == "not supported" and case["group"] != "types"
    }


@pytest.mark.postgres
class TestPostgresql:
    @pytest.fixture
    def shop(self, postgres: PostgresServer) -> Iterator[str]:
        """A database in which nobody may do anything, with a session of somebody else."""
        name = postgres.create_database().rpartition("/")[2]
        with postgres.connect(name) as admin:
            admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            admin.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
            admin.execute("CREATE ROLE loader LOGIN")
            yield name
            admin.execute("DROP OWNED BY loader")
            admin.execute("DROP ROLE loader")
        postgres.drop_database(name)

    def granted(self, postgres: PostgresServer, shop: str, missing: str = "nothing") -> str:
        with postgres.connect(shop) as admin:
            for statement in documented("PostgreSQL", shop=shop):
                admin.execute(statement.replace(missing, ""))
        return postgres.url(shop, user="loader")

    @pytest.mark.spark
    @pytest.mark.parametrize("replication", [True, False])
    def test_they_are_enough_and_without_replication_a_slot_is_not_supported(
        self, postgres: PostgresServer, shop: str, tmp_path: Path, *, replication: bool
    ) -> None:
        url = self.granted(postgres, shop)
        if not replication:
            with postgres.connect(shop) as admin:
                admin.execute("ALTER ROLE loader NOREPLICATION")
        found = certified(tmp_path, url)
        assert list(found) == ([] if replication else ["cdc"])
        assert replication or 'ALTER ROLE "loader" REPLICATION' in found["cdc"]

    def test_without_create_nothing_is_created(self, postgres: PostgresServer, shop: str, tmp_path: Path) -> None:
        code, document = certify(tmp_path, self.granted(postgres, shop, missing=", CREATE"), "--yes")
        assert code == 1
        assert f"GRANT CREATE ON DATABASE {shop} TO loader" in document["error"]["hint"]


class TestMariadb:
    @pytest.fixture
    def shop(self, mariadb: MariadbServer, maria_database: str) -> Iterator[str]:
        """A database in which the login may do nothing, with a session of somebody else."""
        mariadb.run(f"CREATE USER loader@localhost IDENTIFIED BY '{PASSWORD}'")
        with mariadb.connect(maria_database):
            yield maria_database
        mariadb.run("DROP USER loader@localhost")

    def granted(self, mariadb: MariadbServer, shop: str, missing: str = "nothing") -> str:
        for statement in documented("MariaDB"):
            if not statement.startswith(missing):
                mariadb.run(statement.replace("'%'", "localhost"))
        return mariadb.url(shop, user="loader", password=PASSWORD)

    @pytest.mark.spark
    def test_they_are_enough(self, mariadb: MariadbServer, shop: str, tmp_path: Path) -> None:
        assert list(certified(tmp_path, self.granted(mariadb, shop))) == ["cdc"]

    def test_without_a_database_of_its_own_nothing_is_created(
        self, mariadb: MariadbServer, shop: str, tmp_path: Path
    ) -> None:
        document: dict[str, Any]
        code, document = certify(tmp_path, self.granted(mariadb, shop, missing="GRANT ALL"), "--yes")
        assert code == 1
        assert "Access denied" in document["error"]["message"]
