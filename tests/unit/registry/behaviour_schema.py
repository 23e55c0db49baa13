"""How every registry is made, upgraded, and left alone where it is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from tidegate.errors import RegistryError
from tidegate.registry import migrations
from tidegate.registry.store import Registry
from tidegate.registry.tables import METADATA, VERSION_TABLE

# Schema


@pytest.mark.usefixtures("registry")
def test_the_migrations_make_the_tables_that_the_code_names(raw):
    with raw.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_what_older_runs_read_is_known_after_the_upgrade(url, raw, tmp_path):
    """Of a run that never ended nothing is."""
    (tmp_path / "state").mkdir(exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with raw.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0010")
        at = "2025-03-01T00:00:00.000000+00:00"
        stream = {"uid": "'u'", "object_name": "'s'", "source": "'s'", "target": "'t'", "status_cd": "'OK'"}
        columns = {each["name"]: each for each in inspect(connection).get_columns("object_info")}
        stream |= {name: f"'{at}'" for name in columns if name.endswith("_ts") and not columns[name]["nullable"]}
        connection.execute(text(f"INSERT INTO object_info ({', '.join(stream)}) VALUES ({', '.join(stream.values())})"))
        for run_id, payload in [("a", '{"rows_read": 7}'), ("b", None), ("c", '{"rows_read": 0}'), ("d", "{}")]:
            run = f"SELECT '{run_id}', object_id, 'loaded', '{at}', 'me', :payload FROM object_info"
            payload_type = "" if connection.dialect.name == "sqlite" else "::json"
            run = run.replace(":payload", f"CAST(:payload AS text){payload_type}")
            names = "run_id, object_id, outcome, started_ts, started_by, outcome_payload"
            connection.execute(text(f"INSERT INTO runs ({names}) {run}"), {"payload": payload})
    Registry.open(url).close()
    with raw.connect() as connection:
        found = connection.execute(text("SELECT run_id, rows_read FROM runs ORDER BY run_id")).all()
        numbers = connection.execute(text("SELECT run_id, number FROM runs ORDER BY number")).all()
    assert [tuple(row) for row in found] == [("a", 7), ("b", None), ("c", 0), ("d", None)]
    assert [tuple(row) for row in numbers] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


@pytest.mark.parametrize(
    ("version", "told", "hint"),
    [
        ("0005", r"never released \(schema 0005\)", "positions are in the tables"),
        ("9999", "newer Tidegate", "newer one"),
    ],
)
def test_a_registry_of_another_version_is_left_alone(registry, url, raw, version, told, hint):
    registry.close()
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))
    with pytest.raises(RegistryError, match=told) as caught:
        Registry.open(url)
    assert hint in caught.value.hint
    with raw.connect() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == version


def test_a_table_of_somebody_else_is_left_alone(url, raw, tmp_path):
    (tmp_path / "state").mkdir()
    with raw.begin() as connection:
        connection.execute(text("CREATE TABLE plans (mine int)"))
    with pytest.raises(RegistryError) as caught:
        Registry.open(url)
    assert "its own database" in caught.value.hint
    with raw.begin() as connection:
        connection.execute(text("INSERT INTO plans VALUES (1)"))
