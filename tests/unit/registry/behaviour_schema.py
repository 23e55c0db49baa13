"""How every registry is made, upgraded, and left alone where it is not ours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text

import tidegate.registry.migrations
from tidegate.errors import RegistryError
from tidegate.registry.database import Database
from tidegate.registry.store import Registry
from tidegate.registry.tables import METADATA, VERSION_TABLE
from unit.registry.loads import UID, load, publish

# Schema


@pytest.mark.usefixtures("registry")
def test_the_migrations_make_the_tables_that_the_code_names(raw):
    with raw.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


@pytest.mark.parametrize("version", ["0001", "0002", "0005"])
def test_a_registry_of_an_earlier_version_is_upgraded(url, tmp_path, version):
    (tmp_path / "state").mkdir(exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(Path(tidegate.registry.migrations.__file__).parent))
    database = Database(url)
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        columns = (
            "uid, object_name, source, target, status_cd, loaded_through, verified_through, created_ts, updated_ts"
        )
        stream = f"'{UID}', 'orders', 's: a.b', 't', 'OK', '10', '9'"
        connection.execute(
            text(f"INSERT INTO object_info ({columns}) VALUES ({stream}, :at, :at)"),
            {"at": datetime.now(UTC).isoformat(timespec="microseconds")},
        )
    database.close()
    with Registry.open(url) as registry:
        assert [known.stream for known in registry.status()] == ["orders"]
        assert [(part.label, part.known) for part in registry.intervals(UID).parts] == [("(-inf, 10]", "unverified")]
        assert registry.register(uid=UID, name="orders", source="s: a.b", target="t") == 1
        publish(registry, load())


def test_a_registry_of_a_newer_version_is_left_alone(registry, url, raw):
    registry.close()
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="newer Tidegate") as caught:
        Registry.open(url)
    assert "--upgrade" in caught.value.hint
    with raw.connect() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == "9999"


def test_a_table_of_somebody_else_is_left_alone(url, raw, tmp_path):
    (tmp_path / "state").mkdir()
    with raw.begin() as connection:
        connection.execute(text("CREATE TABLE plans (mine int)"))
    with pytest.raises(RegistryError) as caught:
        Registry.open(url)
    assert "its own database" in caught.value.hint
    with raw.begin() as connection:
        connection.execute(text("INSERT INTO plans VALUES (1)"))
