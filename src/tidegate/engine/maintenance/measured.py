"""Measures how much faster readers are since a table was compacted, and that they still get the same answer.

The query is the project's. Spark runs it, or the engine of a connection, such as Trino, that reads the lake's tables.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.core.ids import Connection, Target, join_name
from tidegate.core.policies.maintenance import PLACE, Upkeep
from tidegate.engine.context import RunContext
from tidegate.engine.events import Journal
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, SourceMoved, VerifyFailed
from tidegate.sources.database import dialect_of
from tidegate.spark.measured import measured_query

RUNS = 3
"""So many runs count, after one that fills caches of files and metadata."""
SPARK = "spark"
TABLE_PARTS = 3
"""Lake, schema and table, which an engine of SQL knows as catalog, schema and table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTime:
    """Seconds that the measured query of a table took, before and after it was compacted; medians of several runs.

    Args:
        engine: the connection by which it was asked; `spark` without one.
    """

    before: float
    after: float
    engine: str = SPARK

    @property
    def improvement(self) -> float:
        """By how many percent it takes less; negative if it takes more."""
        return 100 * (self.before - self.after) / self.before if self.before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One side of a comparison.

    Args:
        answer: the digest of the answer's rows in any order; None where every row is read and none is fetched.
    """

    seconds: float
    answer: str | None


def measurement(stream: Stream, context: RunContext, journal: Journal, upkeep: Upkeep) -> Measurement:
    """What the query takes now: the median of some runs, after a first one that is not counted.

    Raises:
        ConfigError: the engine does not take the query, or its answer changes while the table does not.
        SourceMoved: the engine reads another version of the table, or another table.
        SourceUnavailable: the engine does not answer.
    """
    by = stream.policies.measured_by
    with _by_spark(stream, context, journal, upkeep) if by is None else _by_connection(by, stream, upkeep) as ask:
        runs = [_timed(ask) for _ in range(1 + RUNS)]
    answers = {answer for _, answer in runs}
    if len(answers) > 1:
        raise ConfigError(
            f"maintenance: measure_query gave {len(answers)} different answers while table {upkeep.target} stayed the "
            f"same, so it does not depend on the table alone",
            hint="Leave out the clock and random numbers, order what LIMIT cuts, and round sums of floating point.",
        )
    return Measurement(seconds=statistics.median(seconds for seconds, _ in runs[1:]), answer=answers.pop())


def compared(stream: Stream, target: Target, before: Measurement, after: Measurement) -> QueryTime:
    """Both sides. Raises VerifyFailed where the answers differ: maintenance changes no row."""
    if before.answer != after.answer:
        raise VerifyFailed(
            f"the measured query over {target} gives another answer since the table was compacted",
            hint=f"Older versions were not expired. `tidegate verify {stream.name}` compares table and source: "
            f"if they are equal, another writer changed the table in between.",
        )
    by = stream.policies.measured_by
    return QueryTime(before=before.seconds, after=after.seconds, engine=SPARK if by is None else by.name)


def refused(target: tuple[str, ...], connection: Connection) -> str | None:
    """Why a connection cannot measure a query over such a table; None where it can."""
    if not dialect_of(connection).reads_lakes:
        return f"{connection.name!r} is no connection of an engine that reads the lake's tables; name one of Trino"
    if len(target) != TABLE_PARTS:
        return f"{connection.name!r} knows tables as schema.table alone, and {join_name(target)} has another name"
    return None


@contextmanager
def _by_spark(stream: Stream, context: RunContext, journal: Journal, upkeep: Upkeep) -> Iterator[Callable[[], Any]]:
    asked = upkeep.rules.measure_query
    with context.announced_session(journal) as session:

        def ask() -> list[Any] | None:
            rows = stream.format.read(session, upkeep.target, None)
            if isinstance(asked, str):
                return measured_query(session, rows, asked).collect()
            rows.write.format("noop").mode("overwrite").save()
            return None

        yield ask


@contextmanager
def _by_connection(connection: Connection, stream: Stream, upkeep: Upkeep) -> Iterator[Callable[[], Any]]:
    dialect = dialect_of(connection)
    relation = dialect.relation(*upkeep.target.parts[1:])
    visible = stream.format.state(upkeep.target, stream.uid).snapshot
    with closing(dialect.open(connection)) as session:
        if (found := session.table_version(relation)) != visible:
            raise SourceMoved(
                f"connection {connection.name!r} shows version {found} of {relation.label}, and the lake {visible}",
                hint="The URL must name the catalog of this lake, and nobody else may write to the table meanwhile.",
            )
        yield partial(session.rows, str(upkeep.rules.measure_query).replace(PLACE, relation.sql))


def _timed(ask: Callable[[], Any]) -> tuple[float, str | None]:
    began = time.monotonic()
    rows = ask()
    seconds = time.monotonic() - began
    return seconds, None if rows is None else _digest(rows)


def _digest(rows: list[Any]) -> str:
    """Of rows in any order: without ORDER BY no engine promises one."""
    return hashlib.sha256("\n".join(sorted(repr(tuple(row)) for row in rows)).encode()).hexdigest()
