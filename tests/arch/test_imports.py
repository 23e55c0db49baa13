"""Import rules that import-linter cannot say: plugin files, module-level pyspark, what a process really loads."""

import ast
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import tidegate

SOURCE = Path(tidegate.__file__).parent
GROUPS = ("checks", "dialects", "envelopes", "formats", "sources", "strategies", "writers")
PLUGINS = [path for group in GROUPS for path in sorted((SOURCE / group).glob("[!_]*.py"))]


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: {kind: sequence, column: id}
    write: append
"""


def in_fresh_process(code: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, cwd=folder
    )
    return done.stdout.strip()


def test_there_are_plugins_to_look_at():
    assert {path.parent.name for path in PLUGINS} == set(GROUPS)


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_plugin_knows_no_other_plugin(path):
    # A file with a leading underscore is what the plugins of a folder share; it is no plugin.
    others = {f"tidegate.{other.parent.name}.{other.stem}" for other in PLUGINS if other != path}
    # Spark is no choice: whatever hands rows to it speaks its dialect. Every other one goes by `tidegate.plugins`.
    others.discard("tidegate.dialects.spark")
    assert not imported(ast.parse(path.read_text(encoding="utf-8"))) & others


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_pyspark_is_imported_only_where_rows_are_handled(path):
    top = ast.parse(path.read_text(encoding="utf-8"))
    top.body = [node for node in top.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [name for name in imported(top) if name.split(".")[0] in ("pyspark", "py4j")]


def test_import_tidegate_is_lean():
    loaded = in_fresh_process("import sys, tidegate; print(*sorted({name.split('.')[0] for name in sys.modules}))")
    assert not {"pyspark", "sqlalchemy", "pyiceberg", "pydantic", "typer", "structlog"} & set(loaded.split())


SPARK_FREE = (
    "init --project new",
    "check",
    "plan",
    "run orders",
    "status",
    "history orders",
    "tasks",
    "state show orders",
    "state repair",
    "doctor",
    "schema",
)


@pytest.mark.parametrize("words", SPARK_FREE)
def test_a_command_that_moves_no_rows_imports_no_pyspark(words, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    code = (
        "import sys; from tidegate.cli.app import main\n"
        f"code = main({[*words.split(), '--project', str(tmp_path)] if 'new' not in words else words.split()!r})\n"
        "print('loaded:', code, *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    last = in_fresh_process(code, tmp_path).splitlines()[-1].split()
    assert last[:2] == ["loaded:", "0"]
    assert not {"pyspark", "py4j"} & set(last)


def test_import_config_is_lean():
    loaded = in_fresh_process("import sys, tidegate.config; print(*sorted({n.split('.')[0] for n in sys.modules}))")
    assert not {"pyspark", "sqlalchemy", "pyiceberg", "typer", "structlog"} & set(loaded.split())
