"""Import rules that import-linter cannot say: plugin files, module-level pyspark, what a process really loads."""

import ast
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import grimp

import tidegate
import tidegate_demo
from support.trees import imported, imported_by, tree_of
from tidegate import plugins

SOURCE = Path(tidegate.__file__).parent
DEMO = Path(tidegate_demo.__file__).parent
PACKAGES = [path for path in SOURCE.parents[1].glob("packages/*/src/*") if path.is_dir()]
FILES = sorted(path for folder in (SOURCE, DEMO, *PACKAGES) for path in folder.rglob("*.py"))
PLUGINS = [f"tidegate.{group}.{kind}" for group in plugins.GROUPS for kind in plugins.names(group)]


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
    known = []
    for path in FILES:
        mine = [plugin for plugin in PLUGINS if within(module(path), plugin)]
        allowed = (*mine, *OWN.get(module(path).rpartition(".")[0], ()), SPARK)
        others = [plugin for plugin in PLUGINS if plugin not in allowed]
        if mine:
            names = [name for name in imported_by(path) if any(within(name, other) for other in others)]
            known += [f"{module(path)} imports {name}" for name in names]
    assert not known


def test_no_package_imports_what_is_private_to_another():
    found = []
    for path in FILES:
        for name in imported_by(path):
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
        top = [node for node in tree_of(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = imported(ast.Module(body=top, type_ignores=[]))
        found += [module(path) for name in names if name.split(".")[0] in ("pyspark", "py4j")]
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


def test_a_command_that_moves_no_rows_imports_no_pyspark(tmp_path):
    """In one process, which had to import it for the first of them."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
    for name, project in (("shop", PROJECT), ("files", PROJECT + INBOX)):
        (tmp_path / name / "inbox").mkdir(parents=True)
        (tmp_path / name / "tidegate.yaml").write_text(project.replace("shop.db", "../shop.db"), encoding="utf-8")
    code = f"""
import sys
from tidegate.cli.app import main
for words in {SPARK_FREE!r}:
    folder = [] if "new" in words else ["--project", "files" if "inbox" in words else "shop"]
    code = main([*words.split(), *folder])
    print("ran:", words, code, *({{"pyspark", "py4j"}} & {{name.split(".")[0] for name in sys.modules}}))
"""
    ran = [line for line in in_fresh_process(code, tmp_path).splitlines() if line.startswith("ran:")]
    assert ran == [f"ran: {words} 0" for words in SPARK_FREE]


def test_import_config_is_lean():
    loaded = in_fresh_process("import sys, tidegate.config; print(*sorted({n.split('.')[0] for n in sys.modules}))")
    assert not {"pyspark", "sqlalchemy", "pyiceberg", "typer", "structlog"} & set(loaded.split())
