"""How every registry is made, upgraded, and left alone where it is not ours."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from tidegate.errors import RegistryError
from tidegate.registry.store import Registry
from tidegate.registry.tables import METADATA, VERSION_TABLE

# Schema


@pytest.mark.usefixtures("registry")
def test_the_migrations_make_the_tables_that_the_code_names(raw):
    with raw.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_a_registry_from_before_the_first_release_is_left_alone(registry, url, raw):
    registry.close()
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0005'"))
    with pytest.raises(RegistryError, match=r"never released \(schema 0005\)") as caught:
        Registry.open(url)
    assert "positions are in the tables" in caught.value.hint


def test_a_registry_of_a_newer_version_is_left_alone(registry, url, raw):
    registry.close()
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="newer Tidegate") as caught:
        Registry.open(url)
    assert "newer one" in caught.value.hint
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
