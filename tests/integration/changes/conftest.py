"""Lake tables that are sources: made and changed by Spark, read back by PyIceberg."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.outcome import Outcome
from tidegate.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(kw_only=True)
class Lake:
    """A project whose sources and targets are tables of one lake."""

    workspace: Workspace
    spark: SparkSession
    session: SparkSession

    def sql(self, *statements: str) -> None:
        """By a hand that is not Tidegate's."""
        for statement in statements:
            self.session.sql(statement).collect()

    def run(self, stream: str, **options: Any) -> Outcome:
        return self.workspace.run(stream, spark=self.spark, **options).streams[0]

    def loaded(self, stream: str) -> Outcome:
        outcome = self.run(stream)
        assert outcome.error is None, outcome.error
        assert outcome.outcome == "loaded", outcome
        return outcome

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """What PyIceberg reads."""
        return [tuple(row.values()) for row in self.workspace.rows(name)]

    def plan(self, stream: str) -> Any:
        with self.workspace.project(self.spark) as project:
            return project.plan(stream).streams[0]


@pytest.fixture
def lake_of(spark: SparkSession, tmp_path: Path) -> Callable[..., Lake]:
    def make(streams: dict[str, Any], **rest: Any) -> Lake:
        workspace = Workspace(folder=tmp_path)
        workspace.write(streams, connections=rest.pop("connections", {}), spark={"conf": QUICK}, **rest)
        with workspace.project(spark) as project:
            lakes = [lake.spark_conf() for lake in project.lakes.values()]
        (tmp_path / ".tidegate").mkdir(exist_ok=True)
        session = Sessions(borrowed=spark, lakes=lakes).load_session()
        for name, value in QUICK.items():
            session.conf.set(name, value)
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.src")
        return Lake(workspace=workspace, spark=spark, session=session)

    return make
