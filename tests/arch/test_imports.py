"""Import rules that import-linter cannot say: plugin files, module-level pyspark, what a process really loads."""

import ast
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import grimp
import pytest

import tidegate
import tidegate_demo
from tidegate import plugins

SOURCE = Path(tidegate.__file__).parent
DEMO = Path(tidegate_demo.__file__).parent
PACKAGES = [path for path in SOURCE.parents[1].glob("packages/*/src/*") if path.is_dir()]
FILES = sorted(path for folder in (SOURCE, DEMO, *PACKAGES) for path in folder.rglob("*.py"))
PLUGINS = [f"tidegate.{group}.{kind}" for group in plugins.GROUPS for kind in plugins.names(group)]


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


SPARK = "tidegate.dialects.spark"
"""Whatever hands rows to Spark speaks its dialect; every other plugin goes by `tidegate.plugins`."""
LOGS = "tidegate.sources.change_log"
OWN = {
    f"{LOGS}.slot": ("tidegate.dialects.postgresql",),
    f"{LOGS}.capture": ("tidegate.dialects.sqlserver",),
    f"{LOGS}.tracking": ("tidegate.dialects.sqlserver",),
}
"""A replication slot is PostgreSQL's alone."""
PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: {kind: sequence, column: id}
    write: append
"""
INBOX = """\
  inbox:
    source: {path: inbox, format: parquet}
    target: lake.shop.inbox
    strategy: files
    write: append
"""


def in_fresh_process(code: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, cwd=folder
    )
    return done.stdout.strip()


def module(path: Path) -> str:
    package = next(folder for folder in (SOURCE, DEMO, *PACKAGES) if path.is_relative_to(folder))
    return ".".join((package.name, *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")


def within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def test_a_plugin_knows_no_other_plugin():
    known = [
        f"{module(path)} imports {name}"
        for path in FILES
        for plugin in PLUGINS
        if within(module(path), plugin)
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        for other in PLUGINS
        if other not in (plugin, *OWN.get(module(path).rpartition(".")[0], ()), SPARK) and within(name, other)
    ]
    assert not known


def test_no_package_imports_what_is_private_to_another():
    found = []
    for path in FILES:
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            private = next((n for n, part in enumerate(parts) if part.startswith("_") and part != "__version__"), None)
            if (
                parts[0] in (SOURCE.name, DEMO.name, *(folder.name for folder in PACKAGES))
                and private is not None
                and not within(module(path), ".".join(parts[:private]))
            ):
                found.append(f"{module(path)} imports {name}")
    assert not found


def test_imports_have_no_cycles_those_of_type_checkers_counted():
    graph = grimp.build_graph(SOURCE.name, DEMO.name, exclude_type_checking_imports=False)
    done, cycles = set(), []

    def visit(name, path):
        for other in sorted(graph.find_modules_directly_imported_by(name)):
            if other in path:
                cycles.append([*path[path.index(other) :], other])
            elif other not in done:
                visit(other, [*path, other])
        done.add(name)

    for name in sorted(graph.modules):
        if name not in done:
            visit(name, [name])
    assert not cycles


def test_pyspark_is_imported_only_where_rows_are_handled():
    found = []
    for path in FILES:
        top = ast.parse(path.read_text(encoding="utf-8"))
        top.body = [node for node in top.body if isinstance(node, ast.Import | ast.ImportFrom)]
        found += [module(path) for name in imported(top) if name.split(".")[0] in ("pyspark", "py4j")]
    assert not found


def test_import_tidegate_is_lean():
    loaded = in_fresh_process("import sys, tidegate; print(*sorted({name.split('.')[0] for name in sys.modules}))")
    assert not {"pyspark", "sqlalchemy", "pyiceberg", "pydantic", "typer", "structlog"} & set(loaded.split())


SPARK_FREE = (
    "init --project new",
    "check",
    "plan",
    "run inbox",
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
    project = PROJECT + INBOX if "inbox" in words else PROJECT
    (tmp_path / "tidegate.yaml").write_text(project, encoding="utf-8")
    (tmp_path / "inbox").mkdir()
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
