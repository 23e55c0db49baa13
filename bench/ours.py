"""Decides how the benchmarks use the product: as a user would, by a project.

Called by the benchmarks. Must never set what a user would not set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bench.rounds import WrongResult
from bench.source import Orders, Sums, spark_sums
from tidegate.api import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.core.outcome import Outcome


def stream(*, table: str = "orders", verify: str = "moved") -> dict[str, Any]:
    """The stream of the table, by its cursor."""
    return {
        "source": {"connection": "shop", "table": "orders"},
        "target": f"lake.bench.{table}",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
        "write": "merge",
        "verify": verify,
    }


def project(orders: Orders, streams: dict[str, Any], memory: str = "2g") -> dict[str, Any]:
    """A whole project with embedded defaults."""
    return {
        "spark": {"conf": {"spark.driver.memory": memory}},
        "connections": {"shop": {"url": orders.url}},
        "streams": streams,
    }


def borrowed(values: dict[str, Any], folder: Path, spark: SparkSession) -> Project:
    """The project on a session that runs already."""
    folder.mkdir(parents=True, exist_ok=True)
    return Project.from_dict({**values, "spark": {}}, folder=folder, spark=spark)


def write(values: dict[str, Any], folder: Path) -> Path:
    """The project as a file, for processes of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return folder


def load(made: Project, name: str, rows: int) -> Outcome:
    """Runs one stream.

    Raises:
        WrongResult: it failed, or moved another number of rows.
    """
    (outcome,) = made.run(name).streams
    if outcome.error is not None or outcome.rows_read != rows:
        raise WrongResult(f"tidegate: {outcome}")
    return outcome


def command(folder: Path) -> list[str]:
    """`tidegate run` in a process of its own."""
    return [sys.executable, "-m", "tidegate", "run", "--project", str(folder), "--json"]


def document(output: str) -> dict[str, Any]:
    """The one stream of `run --json`.

    Raises:
        WrongResult: it did not end well.
    """
    told = json.loads(output)
    if told["exit_code"] or len(told["streams"]) != 1:
        raise WrongResult(f"tidegate: {output}")
    found: dict[str, Any] = told["streams"][0]
    return found


def run_cold(folder: Path) -> dict[str, Any]:
    """One run in a process of its own."""
    return document(subprocess.run(command(folder), capture_output=True, text=True, check=False, timeout=1800).stdout)


def catalogs(made: Project, spark: SparkSession) -> SparkSession:
    """A session that sees the project's lakes, to check what is in them."""
    session = spark.newSession()
    for lake in made.lakes.values():
        for key, value in lake.spark_conf().items():
            if not key.endswith("extensions"):
                session.conf.set(key, value)
    return session


def must_equal(session: SparkSession, table: str, expected: Sums) -> None:
    """Raises WrongResult unless the table holds exactly the source's rows."""
    found = spark_sums(session, table)
    if found != expected:
        raise WrongResult(f"{table} holds {found}, the source {expected}")
