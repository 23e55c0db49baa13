"""A database is one file: the example of docs/extending, as printed, is a dialect of another package."""

import ast
from pathlib import Path

import duckdb
import pytest

from support.plugin import install, tidegate
from tidegate import plugins

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending" / "add-a-database.md"
PROJECT = """\
connections: {pond: "quack:///pond.db"}
streams:
  ducks:
    source: {connection: pond, table: main.ducks}
    target: lake.pond.ducks
    key: [id]
    strategy: checksum
    write: merge
"""


@pytest.fixture
def installed(tmp_path):
    install(tmp_path, page=PAGE, name="quack_plugin", entry="[tidegate.dialects] quack = quack_plugin:Quack")
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    write(tmp_path, "CREATE TABLE ducks (id BIGINT NOT NULL, name VARCHAR)")
    write(tmp_path, "INSERT INTO ducks VALUES (1, 'Daisy'), (2, 'it''s'), (3, NULL), (4, ''), (5, 'Ü|~')")
    return tmp_path


def write(folder, sql):
    with duckdb.connect(str(folder / "pond.db")) as database:
        database.execute(sql)


def test_nothing_but_its_dialect_names_a_database():
    """Others ask the dialect; catalogs, the registry, connectors, exports, readers of lakes and standards are none."""
    known = {"tidegate/config/state.py": {"sqlite", "postgresql"}, "tidegate/cli/app.py": {"snowflake"}}
    catalogs = ("formats/iceberg/catalog.py", "formats/iceberg/format.py")
    readers = ("formats/iceberg/snippets.py", "formats/delta/snippets.py")
    apart = ("dialects/", "registry/", "testing/project.py", "envelopes/", "telemetry/datasets.py", *catalogs, *readers)
    kinds = {kind: plugins.load("dialects", kind) for kind in plugins.names("dialects") if kind != "spark"}
    names = {name for kind, dialect in kinds.items() for name in (kind, *dialect.schemes)}
    found = {}
    for file in sorted((ROOT / "src" / "tidegate").rglob("*.py")):
        place = str(file.relative_to(ROOT / "src"))
        if not place.startswith(tuple(f"tidegate/{each}" for each in apart)):
            texts = (node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant))
            found[place] = names & {text for text in texts if isinstance(text, str)}
    assert {place: named for place, named in found.items() if named} == known


def test_a_dialect_of_another_package_is_found_checked_and_planned(installed):
    checked = tidegate(installed, "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    planned = tidegate(installed, "plan")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "5 rows" in planned.stdout


def test_what_it_declares_decides_what_fits(installed):
    file = installed / "tidegate.yaml"
    watermark = "strategy: {kind: watermark, column: id}"
    file.write_text(file.read_text(encoding="utf-8").replace("strategy: checksum", watermark), encoding="utf-8")
    refused = tidegate(installed, "check")
    assert refused.returncode != 0
    assert "quack" in refused.stdout + refused.stderr


def test_init_proposes_its_tables_from_the_projects_folder_on(installed):
    (installed / "tidegate.yaml").unlink()
    done = tidegate(installed, "init", "quack:///pond.db")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'url: "quack:///pond.db"' in (installed / "tidegate.yaml").read_text(encoding="utf-8")


@pytest.mark.spark
def test_a_load_runs_with_it_and_what_changed_is_found(installed):
    done = tidegate(installed, "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"rows_inserted": 5' in done.stdout
    assert "LOAD" not in tidegate(installed, "plan").stdout
    write(installed, "UPDATE ducks SET name = 'Donald' WHERE id = 3; DELETE FROM ducks WHERE id = 1")
    assert "LOAD" in tidegate(installed, "plan").stdout
