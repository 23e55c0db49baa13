"""The table `t` of a database, the stream that loads it, and the table `lake.out.t`, read by PyIceberg or delta-rs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from support.lake import QUICK, delta_rows
from support.shops import PostgresShop
from support.workspace import SqliteShop, Workspace
from tidegate.api import Project
from tidegate.core.outcome import Outcome, Result
from tidegate.engine.events import Event, Moment, Stage
from tidegate.testing import Crash, crash_at


@dataclass(frozen=True, kw_only=True)
class DuckdbShop:
    """A source database in one file."""

    path: Path

    @property
    def url(self) -> str:
        return f"duckdb:///{self.path}"

    def sql(self, *statements: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            for statement in statements:
                connection.execute(statement)


@dataclass(kw_only=True)
class Bench:
    """One stream, in a format."""

    folder: Path
    spark: Any
    form: str = "iceberg"
    shop: Any

    @property
    def workspace(self) -> Workspace:
        return Workspace(folder=self.folder)

    @property
    def sql(self) -> Callable[..., None]:
        """Runs statements at the source."""
        return self.shop.sql

    def write(
        self, strategy: Any, write: Any = "merge", *, key: Any = ("id",), lake: Any = None, **stream: Any
    ) -> None:
        """The project file."""
        made = {"source": {"connection": "shop", "table": "t"}, "target": "lake.out.t", "strategy": strategy}
        made |= {"write": write, **({"key": list(key)} if key else {}), **stream}
        connections, lakes = {"shop": {"url": self.shop.url}}, {"lake": {"format": self.form, **(lake or {})}}
        self.workspace.write({"t": made}, connections=connections, lakes=lakes, spark={"conf": QUICK})

    def project(self) -> AbstractContextManager[Project]:
        return self.workspace.project(self.spark)

    def run(self, **options: Any) -> Outcome:
        return self.workspace.run("t", spark=self.spark, **options).streams[0]

    def loaded(self, **options: Any) -> Outcome:
        """A run that loads and is proven."""
        outcome = self.run(**options)
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
        return outcome

    def unchanged(self) -> None:
        """A run that finds nothing to do; no session is lent, so a load would have to start one."""
        (outcome,) = self.workspace.run("t").streams
        assert (outcome.error, outcome.outcome, outcome.spark_started) == (None, Result.UNCHANGED, False)

    def refused(self, **options: Any) -> tuple[str, str, str]:
        """A run that does not end well: the code, the message and the hint."""
        error = self.run(**options).error
        assert error is not None
        return error.code, error.message, error.hint

    def crashed(self, stage: Stage, moment: Moment) -> None:
        with pytest.raises(Crash):
            self.run(on_event=crash_at((stage, moment)))

    def run_of_somebody_else(self) -> Outcome:
        """Of the same project, with a registry of their own."""
        values = yaml.safe_load(self.workspace.file.read_text())
        values["registry"] = f"sqlite:///{self.folder / 'other.db'}"
        with Project.from_dict(values, folder=self.folder, spark=self.spark) as project:
            return project.run("t").streams[0]

    @property
    def location(self) -> Path:
        return self.folder / "warehouse" / "out" / "t"

    def rows(self, *columns: str) -> list[Any]:
        """Sorted; those columns alone as tuples."""
        found = delta_rows(str(self.location)) if self.form == "delta" else self.workspace.rows("out.t")
        if columns:
            found = [tuple(row.get(name) for name in columns) for row in found]
        return sorted(found, key=lambda row: json.dumps(row, default=str))

    def source(self, columns: str = "*") -> list[tuple]:
        """The source's own rows, sorted as those of the table are."""
        return sorted(self.shop.rows(f"select {columns} from t"), key=lambda row: json.dumps(row, default=str))

    def verify(self, **options: Any) -> Any:
        with self.project() as project:
            return project.verify("t", **options).streams[0]

    def by_hand(self, *statements: str) -> None:
        """What somebody else does to the table, as Spark's SQL."""
        name = f"delta.`{self.location}`" if self.form == "delta" else "lake.out.t"
        with self.project() as project:
            session = project.sessions.load_session()
            for statement in statements:
                session.sql(statement.format(table=name))
            project.sessions.release(session)


@pytest.fixture
def bench(request, tmp_path, spark) -> Bench:
    return Bench(
        folder=tmp_path,
        spark=spark,
        form=getattr(request, "param", "iceberg"),
        shop=SqliteShop(path=tmp_path / "shop.db"),
    )


@pytest.fixture
def pg_bench(bench, pg_url) -> Bench:
    bench.shop = PostgresShop(url=pg_url)
    return bench


on_both = pytest.mark.parametrize("bench", ["iceberg", "delta"], indirect=True)
on_delta = pytest.mark.parametrize("bench", ["delta"], indirect=True)


def at(stage: Stage, moment: Moment, do: Callable[[], object]) -> Callable[[Event], None]:
    """Does something at the first event of that kind."""
    done: list[Event] = []

    def listen(event: Event) -> None:
        if (event.stage, event.moment) == (stage, moment) and not done:
            done.append(event)
            do()

    return listen
