"""A stream of a log in files, loaded into either format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.core.outcome import Outcome


@dataclass(kw_only=True)
class EventLog:
    """A folder of events and the table that they are loaded into."""

    workspace: Workspace
    spark: SparkSession
    kind: str

    @property
    def folder(self) -> Path:
        return self.workspace.folder / "events"

    def events(self, name: str, *rows: dict[str, Any]) -> None:
        self.raw(name, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def raw(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)

    def run(self, **options: Any) -> Outcome:
        return self.workspace.run(spark=self.spark, **options).streams[0]

    def loaded(self, **options: Any) -> Outcome:
        outcome = self.run(**options)
        assert outcome.error is None, outcome.error
        assert outcome.verified
        return outcome

    def read(self, table: str = "orders") -> list[dict[str, Any]]:
        if self.kind == "iceberg":
            return self.workspace.rows(f"shop.{table}")
        return delta_rows(f"{self.workspace.folder}/warehouse/shop/{table}")

    def rows(self, table: str = "orders") -> list[tuple[Any, ...]]:
        return sorted((tuple(row.values()) for row in self.read(table)), key=str)

    def project(self) -> Any:
        return self.workspace.project(self.spark)


@pytest.fixture
def log_of(spark: SparkSession, tmp_path: Path) -> Callable[..., EventLog]:
    def make(kind: str = "iceberg", *, connections: dict[str, Any] | None = None, **stream: Any) -> EventLog:
        (tmp_path / "events").mkdir(exist_ok=True)
        workspace = Workspace(folder=tmp_path)
        one = {
            "source": {"path": "events/*.json", "envelope": "rows"},
            "target": "lake.shop.orders",
            "key": "id",
            "strategy": "cdc",
            "write": "merge",
        }
        workspace.write(
            {"orders": one | stream},
            connections=connections or {},
            lakes={"lake": {"format": kind}},
            spark={"conf": QUICK},
        )
        return EventLog(workspace=workspace, spark=spark, kind=kind)

    return make
