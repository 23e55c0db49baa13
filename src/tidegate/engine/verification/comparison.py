"""Decides which rows of a table are compared with which rows of its source in a full comparison.

Used by `verify`, and before a run continues from an unverified load. Rows that the next load is about to change never
count as different.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Level
from tidegate.core.effects import Insert, Upsert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.manifest import LOADED, Manifest
from tidegate.core.policies.deletes import DELETED_AT, Detect
from tidegate.core.ports.format import TableState
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.position_state import columns_of, names_files
from tidegate.core.schema import Schema
from tidegate.core.slices import Files, Range
from tidegate.dialects.spark import Spark
from tidegate.engine import column_names
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.quarantine.quarantine import as_read
from tidegate.engine.stream import Stream
from tidegate.engine.verification import drilldown, expected
from tidegate.engine.verification.drilldown import Difference
from tidegate.engine.verification.fingerprint_sources import SourceSide, TableSide
from tidegate.errors import PlanError
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def mirrors(stream: Stream) -> bool:
    """Whether the table should hold exactly the rows of the source."""
    return stream.writer.idempotent or stream.strategy.emits != {Upsert}


def difference(work: LoadContext, session: SparkSession, level: Level, part: Range | None = None) -> Difference:
    """Compares the probe's snapshot with the version of the table whose position was read.

    Args:
        part: restricts the comparison to these rows; the whole table if None.
    """
    stream, probe, table, since = work.stream, work.probe, work.recovered.table, work.recovered.since
    wanted = expected.of_part(stream, part, probe, since) if part else expected.of_table(stream, since, probe)
    columns = probe.schema()
    rows = live(stream, session, table, columns)
    key = named_by(stream, columns)
    with translated(f"reading {stream.target}"):
        full, quarantined = as_read(stream, session, rows, table=table, since=since, columns=columns)
        full = full if part is None else full.where(within(part, columns))
        if level is Level.COUNTS:
            counted = (probe.count(wanted.part, latest=wanted.latest), full.count())
            found = Difference(source_rows=counted[0], target_rows=counted[1], buckets=int(counted[0] != counted[1]))
        else:
            found = drilldown.compare(
                SourceSide(probe=probe, part=wanted.part, key=key, latest=wanted.latest),
                TableSide(rows=full, columns=columns, key=key),
                rows=table.rows or 0,
                to_rows=level is Level.ROWS,
            )
        return (
            replace(found, target_rows=rows.count(), quarantined=quarantined) if quarantined and part is None else found
        )


def of_last_load(work: LoadContext, session: SparkSession, before: str | None) -> Difference:
    """The whole table; rows of earlier loads that the source has deleted since do not count as different.

    A stream that does not detect deletes keeps such rows on purpose.

    Args:
        before: the cursor up to which the table had been loaded before its last load; None for nothing.
    """
    stream, since = work.stream, work.recovered.since
    found = difference(work, session, Level.ROWS)
    keeps = Upsert in stream.strategy.emits and stream.policies.deletes.detect is Detect.NONE
    only_extra = found.rows == len(found.extra)
    if found.equal or not keeps or not only_extra or before is None or since is None or not stream.strategy.cursor:
        return found
    new = Range(cursor=stream.strategy.cursor, after=before, upto=since.loaded_through)
    return difference(work, session, Level.ROWS, new)


def named_by(stream: Stream, columns: Schema) -> tuple[str, ...]:
    """The key columns by which differing rows are named; none if one of them has no exact text."""
    found = [columns.find(name) for name in stream.key]
    return stream.key if all(column is not None and column.type.covered for column in found) else ()


def window(work: LoadContext, session: SparkSession, part: Range) -> Difference:
    """The rows of one window, which is all that can be compared of a table that keeps every version of a row."""
    stream, columns = work.stream, work.probe.schema()
    if columns.find(part.cursor[0]) is None:
        return Difference(source_rows=0, target_rows=0, buckets=1)
    where = within(part, columns)
    target = fingerprint(stream, session, work.recovered.table, columns, where, since=work.recovered.since)
    source = work.probe.fingerprint(part)
    return Difference(source_rows=source.rows, target_rows=target.rows, buckets=int(source != target))


def within(part: Range, columns: Schema) -> str:
    """The condition of the table's rows that lie in the slice."""
    column, spark = columns.find(part.cursor[0]), Spark()
    cursor = f"coalesce({', '.join(map(spark.quote, part.cursor))})"
    ends = []
    if column is not None and part.after is not None:
        ends.append(spark.compared(cursor, ">", column.type, part.after))
    if column is not None and part.upto is not None:
        ends.append(spark.compared(cursor, "<=", column.type, part.upto))
    return f"(({' AND '.join(ends) or 'true'})" + (f" OR {cursor} IS NULL)" if part.nulls else ")")


def fingerprint(  # noqa: PLR0913 - a version of a table, and which of its rows
    stream: Stream,
    session: SparkSession,
    table: TableState,
    columns: Schema,
    where: str = "true",
    *,
    since: Position | None = None,
) -> Fingerprint:
    """The fingerprint of one version of the table; a column that it does not have yet counts as NULL.

    Args:
        since: includes rows that were quarantined up to this position; None for the table's own rows.
    """
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

    rows = live(stream, session, table, columns)
    with translated(f"reading {stream.target}"):
        full = rows
        if since:
            full, _ = as_read(stream, session, rows, table=table, since=since, columns=columns)
        return dataframe_ops.fingerprint(
            dataframe_ops.completed(full, columns).where(where), Spark().steps(columns.columns)
        )


def live(stream: Stream, session: SparkSession, table: TableState, columns: Schema) -> DataFrame:
    """The rows of one version of the table that correspond to present rows of the source, by its names.

    In a history, these are the current versions; every version, if each row of the source is a change of its own.
    """
    rows = column_names.by_names_of(stream.format.read(session, stream.target, table.snapshot), table, columns)
    if stream.writer.versions is not None and stream.strategy.emits != {Insert}:
        return rows.where(stream.writer.current)
    return rows.where(f"{DELETED_AT} IS NULL") if stream.policies.deletes.soft and DELETED_AT in rows.columns else rows


def choose_loaded(stream: Stream, context: RunContext, probe: Probe, since: Position) -> None:
    """Restricts a source of files to those in the table according to the position; the next load reads the others.

    Raises:
        PlanError: a file is gone whose rows the table keeps, or it is unknown which files were loaded, or in which
            order where that decides.
    """
    files = probe.files
    if files is None or not names_files(since.state):
        return
    kept = context.registry.manifest(stream.uid)
    known = kept if kept.vouched(since.state) else None
    there = files.listing(known).ready
    manifest = there if known is None else known
    missing = [path for path in manifest.files if path not in there.files]
    if missing or not manifest.vouched(since.state):
        what = (
            f"{missing[0]} is missing"
            if len(missing) == 1
            else f"{missing[0]} and {len(missing) - 1} more are missing"
            if missing
            else "there is no record of which files were loaded"
        )
        raise PlanError(
            f"the table of stream {stream.name!r} cannot be compared with its files: {what}",
            hint=_without_files(stream, carried=files.carrier is not None, some=bool(missing)),
        )
    files.choose(manifest.files.values(), columns_of(since.state))
    refuse_unknown(stream, since, manifest, probe)


def _without_files(stream: Stream, *, carried: bool, some: bool) -> str:
    """What to do about files that are gone, or about a record that is: only what changes that."""
    run = f"tidegate run {stream.name}"
    if not some:
        return f"Load them: `{run}`."
    if getattr(stream.strategy, "removes_files", False):
        return f"Restore what is missing, or remove its rows: `{run}`."
    if carried and stream.writer.versions is None:
        return f"Restore what is missing, or remove its rows, which a run keeps: `{run} --set on_delete=remove`."
    return f"Restore what is missing, or drop its rows by loading what is there: `{run} --full-refresh --yes`."


def refuse_unknown(stream: Stream, since: Position, manifest: Manifest, probe: Probe) -> None:
    """Refuses a comparison that depends on the order of loads, if the registry has lost it.

    Raises:
        PlanError: two of them have rows of one key, and which one counts depends on their loads.
    """
    unknown = tuple(file.path for file in manifest.files.values() if not file.loaded)
    rule = expected.rule(stream, since)
    if rule is None or LOADED not in rule.order or len(unknown) < 2:
        return
    one = Latest(key=rule.key, order=())
    keys = probe.count(Files(paths=unknown), latest=one)
    if sum(probe.count(Files(paths=(path,)), latest=one) for path in unknown) > keys:
        raise PlanError(
            f"the table of stream {stream.name!r} cannot be compared with its files: several of them have rows with "
            f"the same key, and the registry, which was lost and rebuilt, does not know which of them was loaded last",
            hint=f"Reload all files in one load: `tidegate run {stream.name} --full-refresh --yes`; the "
            "writer's `order_by:` then decides which row of a key wins.",
        )
