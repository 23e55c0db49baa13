"""A plugin is one file: the example of CONTRIBUTING, as printed, is a strategy of another package."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.plugin import install, tidegate

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: {kind: nightly, least_rows: 2}
    write: replace
"""


@pytest.fixture
def installed(tmp_path):
    install(
        tmp_path,
        page=CONTRIBUTING,
        name="nightly_plugin",
        entry="[tidegate.strategies] nightly = nightly_plugin:Nightly",
    )
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    subprocess.run([sys.executable, "-c", MAKE_DATABASE], cwd=tmp_path, check=True, timeout=240)
    return tmp_path


MAKE_DATABASE = """
import sqlite3
database = sqlite3.connect("shop.db")
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
database.execute("INSERT INTO orders VALUES (1), (2)")
database.commit()
database.close()
"""


def test_a_strategy_of_another_package_is_found_validated_and_planned(installed):
    done = tidegate(installed, "plan")
    assert done.returncode == 0, done.stderr
    assert "LOAD everything: rows were added" in done.stdout


def test_its_options_are_in_the_schema_and_its_mistakes_have_lines(installed):
    assert '"nightly"' in tidegate(installed, "schema").stdout
    file = installed / "tidegate.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("least_rows", "least_row"), encoding="utf-8")
    assert (
        "tidegate.yaml:6: streams.orders.strategy.least_row: unknown key; did you mean 'least_rows'?"
        in tidegate(installed, "check").stderr
    )


@pytest.mark.spark
def test_a_load_runs_with_it(installed):
    done = tidegate(installed, "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"rows_inserted": 2' in done.stdout
