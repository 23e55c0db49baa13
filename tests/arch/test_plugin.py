"""A plugin is one file: a package of somebody else adds a strategy, and nothing of Tidegate is edited."""

import subprocess
import sys

import pytest

PACKAGE = '''\
"""Reads every row on odd runs only."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from tidegate.core.changes import ChangeSet
from tidegate.core.slices import Everything, Meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class Sometimes:
    """Every second run reads every row."""

    kind: ClassVar[str] = "sometimes"
    emits: ClassVar[frozenset] = frozenset({Meaning.ALL})
    rereads: ClassVar[bool] = True
    cursor: ClassVar[tuple] = ()

    pause: timedelta

    def problems(self):
        return ()

    def detect(self, probe, since, kept=None):
        rows = probe.stats(Everything()).rows
        return ChangeSet(slices=(Everything(),), meaning=Meaning.ALL, rows=rows, reason=f"pause is {self.pause}")
'''
PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: {kind: sometimes, pause: 90s}
    write: replace
"""


@pytest.fixture
def installed(tmp_path):
    (tmp_path / "sometimes_plugin.py").write_text(PACKAGE, encoding="utf-8")
    about = tmp_path / "sometimes_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sometimes-plugin\nVersion: 1.0\n", encoding="utf-8")
    entry = "[tidegate.strategies]\nsometimes = sometimes_plugin:Sometimes\n"
    (about / "entry_points.txt").write_text(entry, encoding="utf-8")
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    subprocess.run([sys.executable, "-c", MAKE_DATABASE], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


MAKE_DATABASE = """
import sqlite3
database = sqlite3.connect("shop.db")
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
database.execute("INSERT INTO orders VALUES (1), (2)")
database.commit()
database.close()
"""


def tidegate(folder, *words):
    code = f"import sys; sys.path.insert(0, '.'); from tidegate.cli.app import main; sys.exit(main({list(words)!r}))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_strategy_of_another_package_is_found_validated_and_planned(installed):
    done = tidegate(installed, "plan")
    assert done.returncode == 0, done.stderr
    assert "LOAD everything: pause is 0:01:30" in done.stdout


def test_its_options_are_in_the_schema_and_its_mistakes_have_lines(installed):
    assert '"sometimes"' in tidegate(installed, "schema").stdout
    file = installed / "tidegate.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("pause", "pase"), encoding="utf-8")
    assert (
        "tidegate.yaml:6: streams.orders.strategy.pase: unknown key; did you mean 'pause'?"
        in tidegate(installed, "check").stderr
    )


@pytest.mark.spark
def test_a_load_runs_with_it(installed):
    done = tidegate(installed, "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"rows_inserted": 2' in done.stdout
