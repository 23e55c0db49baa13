"""Writes one load to a Delta table, in one commit with its number and position.

Delta has no branches, so the commit is visible at once. A write counts as done only after the load's own mark was read
back: Delta skips a commit whose number the table already has, and reports success.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan, Mode, Prune
from tidegate.core.ports.format import Receipt, Staging
from tidegate.core.refusals import marked
from tidegate.core.schema import Schema
from tidegate.core.slices import Slice
from tidegate.dialects.spark import Spark
from tidegate.errors import CommitConflict, InternalError, PositionMoved, TidegateError
from tidegate.formats.delta import table
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.delta.log import Commit, Log, Snapshot
from tidegate.formats.shared.listed_keys import listed
from tidegate.formats.shared.small_write import SETTINGS, few, named, read_back, small_settings
from tidegate.formats.shared.statements import Statement, bound, carried, deleting, live, merging, together
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import completed, of_keys
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

NUMBER = "spark.databricks.delta.write."
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Delta reads its log by Spark: fifty tasks, planned in several stages, for a log of a few lines.
FEW_FILES = 10_000
SHORT_LOG = {"spark.databricks.delta.snapshotPartitions": "1"}
SMALL_TABLE = 200_000
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of rows without a value."""
TEXT = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaStaging(Staging):
    """A load of one table, from the version that its position was read from.

    Args:
        location: where the table lies.
        load: its log as of now, read without Spark.
    """

    invisible: ClassVar[bool] = False

    session: SparkSession
    target: Target
    plan: LoadPlan
    location: str
    load: Callable[[], Log | None]
    _opened: list[Snapshot] = field(default_factory=list, init=False, repr=False, compare=False)
    _landed: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def open(self) -> None:
        """Checks that the table is still at the version that the load was planned on.

        Raises:
            CommitConflict: the table is gone, or rows came or went since.
        """
        log = self._log()
        self._need_base(log)
        snapshot = log.snapshot()
        self._opened.append(snapshot)
        if len(snapshot.files) <= FEW_FILES:
            self._set(SHORT_LOG)
        if self._few(snapshot):
            self._set(SETTINGS)
        elif not table.copies_rows(snapshot):
            self._set(small_settings(self.plan, snapshot.rows))

    def append(self, rows: DataFrame) -> None:
        with self._committing("writing to"):
            self._writer(self._storable(rows)).mode("append").save(self.location)

    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        writer = self._writer(self._storable(rows)).mode("overwrite")
        if parts is not None:
            writer = writer.option("replaceWhere", Spark().among(parts, self.plan.columns))
        with self._committing("writing to"):
            writer.save(self.location)

    def merge(  # noqa: PLR0913 - what a merge is made of
        self,
        rows: DataFrame,
        *,
        prune: Sequence[Prune],
        skip_equal: bool,
        delete_if: str | None = None,
        again: str | None = None,
        by: Sequence[str] = (),
    ) -> None:
        """Updates and inserts by key; keys must be unique in `rows`."""
        opened = self._opened[-1]
        table_rows = None if by or table.copies_rows(opened) else opened.rows
        with listed(self.session, rows, self.plan, prune, table_rows=table_rows) as bounds:
            statement = merging(
                self.plan,
                prune=bounds,
                skip_equal=skip_equal,
                delete_if=delete_if,
                again=again,
                by=by,
                carried=carried(rows, self.plan),
            )
            self._merged(self._storable(rows), statement)

    def delete(self, keys: DataFrame, *, prune: Sequence[Prune]) -> None:
        self._merged(keys, deleting(self.plan, prune=prune))

    def _merged(self, rows: DataFrame, statement: Statement) -> None:
        """One commit by a statement over the table and a view of the rows."""
        view = f"tidegate_{self.plan.load_id}"
        with self._committing("merging into"):
            rows.createOrReplaceTempView(view)
            settings = {USER_METADATA: self._metadata()}
            if not self._landed:
                # A second merge of one load would be taken for the first one done again, and left out.
                settings |= self._number(NUMBER)
            try:
                for name, value in settings.items():
                    self.session.conf.set(name, value)
                self.session.sql(statement(by_path(self.location), sql.quote(view)))
            finally:
                for name in settings:
                    self.session.conf.unset(name)
                self.session.catalog.dropTempView(view)

    def read(self) -> DataFrame:
        """The whole version that the load made, before it did the one that it was opened on; of live rows."""
        rows = read(self.session, self.target, self.location, str([self._opened[-1].version, *self._landed][-1]))
        return rows.where(live(self.plan))

    def read_keys(self, keys: DataFrame | None, *, prune: Sequence[Prune]) -> DataFrame:
        with self._translated("reading"):
            within = self.read().where(" AND ".join(bound(each) for each in prune) or "true")
            return within if keys is None else of_keys(within, keys, keys.columns)

    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these partitions, as committed; other files are pruned."""
        with self._translated("reading"):
            return self.read().where(Spark().among(parts, self.plan.columns))

    def read_added(self) -> DataFrame:
        log = self._log()
        files = list(self._commit(log).of("add"))
        columns = table.fields(log.snapshot())
        values = [file["partitionValues"] for file in files if file["partitionValues"]]
        with self._translated("reading"):
            if values or not files or sql.literal_path(self.location) != self.location:
                names = ", ".join(sql.string(file["path"].rpartition("/")[2]) for file in files)
                added = f"_metadata.file_name IN ({names})" if files else "false"
                return self.read().where(" AND ".join((*_within(values, columns), added)))
            # Their own reader: Delta's would open every file of the table to look for these.
            paths = [f"{self.location}/{file['path']}" for file in files]
            stored = ", ".join(f"{sql.quote(table.physical(each))} {table.spark_type(each)}" for each in columns)
            renamed = [f"{sql.quote(table.physical(each))} AS {sql.quote(each['name'])}" for each in columns]
            return self.session.read.schema(stored).parquet(*paths).selectExpr(*renamed)

    def written(self) -> pa.Table | None:
        """The rows that the load's one commit added or replaced, see `Staging.written`."""
        mode = self.plan.write.mode
        if mode not in (Mode.APPEND, Mode.MERGE_ON_READ) or not read_back(self.plan) or len(self._landed) != 1:
            return None
        from tidegate.formats.delta import readback  # noqa: PLC0415 - its import takes half a second

        log = self._log()
        key = () if mode is Mode.APPEND else self.plan.key
        names = [column.name for column in self.plan.columns.covered]
        return readback.added(log, self._commit(log), columns=names, key=key)

    def receipt(self) -> Receipt:
        log = self._log()
        return self._receipt(log, self._commit(log))

    def publish(self) -> Receipt:
        """The receipt: what was committed is seen already."""
        log = self._log()
        commits = [commit for version in reversed(self._landed) if (commit := log.commit(version)) is not None]
        return together([self._receipt(log, commit) for commit in commits]) if commits else self.receipt()

    def _receipt(self, log: Log, commit: Commit) -> Receipt:
        """The receipt; how many rows go with whole files tells the version before, and not the commit."""
        found = table.receipt(commit)
        mode = (commit.info.get("operationParameters") or {}).get("mode")
        if self.plan.write.mode is not Mode.OVERWRITE or mode != "Overwrite":
            return found
        return replace(found, rows_deleted=log.snapshot(commit.version - 1).rows or 0)

    def discard(self) -> None:
        """Nothing: what was not committed is in no version, and what was cannot be taken back."""

    def _set(self, wanted: Mapping[str, str]) -> None:
        for name, value in wanted.items():
            self.session.conf.set(name, value)

    def _few(self, opened: Snapshot) -> bool:
        """Whether few rows come and few of the table are looked at or written again."""
        small = opened.rows is not None and opened.rows <= SMALL_TABLE
        appended = self.plan.write.mode is Mode.APPEND
        return few(self.plan) and (small or appended or (named(self.plan) and not table.copies_rows(opened)))

    def _writer(self, rows: DataFrame) -> Any:
        options = {**self._number(""), "userMetadata": self._metadata()}
        if not self.plan.replaced:
            wanted = completed(rows, self.plan.table, *map(sql.quote, carried(rows, self.plan)))
            return self._widened(wanted).write.format("delta").options(**options)
        # The rows bring the columns of the table with them, so those that the source lacks have to be among them.
        snapshot = self._log().snapshot()
        known = set(self.plan.table.names)
        kept = (column for column in table.schema(snapshot) if column.name not in known)
        wanted = completed(rows, Schema(columns=(*self.plan.table, *kept)))
        options["overwriteSchema"] = "true"
        return wanted.write.format("delta").options(**options).partitionBy(*table.partition_by(snapshot))

    def _widened(self, rows: DataFrame) -> DataFrame:
        """The rows in the types of the table, which may be wider: an append to Delta casts nothing."""
        fields = (field for field in table.fields(self._opened[-1]) if field["name"] in rows.columns)
        types = {field["name"]: table.spark_type(field) for field in fields}
        return rows.selectExpr(
            *(
                f"CAST({sql.quote(name)} AS {types[name]}) AS {sql.quote(name)}"
                if types.get(name, kind) != kind
                else sql.quote(name)
                for name, kind in rows.dtypes
            )
        )

    def _storable(self, rows: DataFrame) -> DataFrame:
        """The rows, whose reading ends at a text that would become NULL as the name of a partition's folder."""
        return storable(rows, table.partition_by(self._log().snapshot()))

    def _number(self, prefix: str) -> dict[str, str]:
        return {f"{prefix}txnAppId": self.plan.uid, f"{prefix}txnVersion": str(self.plan.position.sequence)}

    def _metadata(self) -> str:
        columns = self.plan.evolution.source_columns
        text = None if columns is None else columns.to_json(table.ids(self._opened[-1]))
        return table.user_metadata(self.plan.uid, self.plan.position, columns=text)

    @contextmanager
    def _committing(self, doing: str) -> Iterator[None]:
        """One write: fenced before it, looked for after it, also when Spark says that it failed."""
        if not self._landed:
            self._need_base(self._log())
        known = len(self._landed)
        try:
            with self._translated(doing):
                yield
        except TidegateError:
            with contextlib.suppress(TidegateError):
                self._look()
            if len(self._landed) == known:
                self._need_own()
                raise
        else:
            self._look()
            self._need_own()
        if not self._landed:
            if self._log().snapshot().transactions.get(self.plan.uid, 0) >= self.plan.position.sequence:
                raise PositionMoved(
                    f"the table already has load {self.plan.position.sequence} of stream {self.plan.stream.name!r}, so "
                    f"this one was skipped"
                )
            raise InternalError("a commit does not have the position that was written with it")

    def _look(self) -> None:
        """Notes the versions that carry this load's mark."""
        for commit in self._log().commits(after=self._base):
            if commit.version not in self._landed and self._marked(commit):
                self._landed.append(commit.version)

    def _need_own(self) -> None:
        """Raises PositionMoved if another load of this stream, or a RESTORE, came between the plan and this load."""
        log = self._log()
        upto = self._landed[0] if self._landed else log.version
        for commit in log.commits(after=self._base, upto=upto):
            other = table.position_of(commit, self.plan.uid)
            if self._marked(commit) or table.is_repeated(commit, self.plan.uid):
                continue
            if other is not None or table.is_restore(commit):
                raise PositionMoved(
                    f"another runner has loaded stream {self.plan.stream.name!r}, or the table was restored, "
                    "while this load was under way; "
                    + ("its rows are in the table, too" if self._landed else "it was skipped"),
                    hint="Repair the table with `tidegate verify STREAM --repair`." if self._landed else "Run again.",
                )

    def _need_base(self, log: Log) -> None:
        if self.plan.base is None or int(self.plan.base) <= log.version:
            moved = (each.changes_rows or table.is_restore(each) for each in log.commits(after=self._base))
            if not any(moved):
                return
        raise CommitConflict(f"table {self.target} has changed since the load was planned")

    @property
    def _base(self) -> int:
        return -1 if self.plan.base is None else int(self.plan.base)

    def _log(self) -> Log:
        log = self.load()
        if log is None:
            raise CommitConflict(f"table {self.target} no longer exists", hint="Run again.")
        return log

    def _commit(self, log: Log) -> Commit:
        commit = log.commit(self._landed[-1]) if self._landed else None
        if commit is None:
            raise InternalError(f"load {self.plan.load_id} has not been committed")
        return commit

    def _marked(self, commit: Commit) -> bool:
        found = table.position_of(commit, self.plan.uid)
        return found is not None and found.to_json() == self.plan.position.to_json()

    def _translated(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return translated(f"{doing} {self.target}", self.location)


def storable(rows: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """The rows, whose reading ends where a partition's folder would not keep a text.

    Source: Delta protocol, "Partition Value Serialization": an empty text is NULL.
    """
    texts = {
        name for name in partition_by if name in rows.columns and rows.schema[name].dataType.simpleString() == TEXT
    }
    if not texts:
        return rows
    columns = []
    for name in rows.columns:
        quoted = sql.quote(name)
        reason = marked(f"column {name!r} holds a text that Delta would store as NULL, because it partitions the table")
        lost = f"{quoted} IN ('', {sql.string(NO_VALUE)})"
        kept = f"CASE WHEN {lost} THEN CAST(raise_error({sql.string(reason)}) AS string) ELSE {quoted} END AS {quoted}"
        columns.append(kept if name in texts else quoted)
    return rows.selectExpr(*columns)


def _within(values: Sequence[Mapping[str, str | None]], columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For each column that a table is partitioned by, the values among which all of these files lie."""
    for column in columns:
        name = table.physical(column)
        found = {each[name] for each in values if name in each}
        if found:
            kind, quoted = table.spark_type(column), sql.quote(column["name"])
            texts = ", ".join(f"CAST({sql.string(value)} AS {kind})" for value in found if value is not None)
            some = f"{quoted} IN ({texts})" if texts else "false"
            yield f"({some} OR {quoted} IS NULL)" if None in found else some


def read(session: SparkSession, target: Target, location: str, version: str | None) -> DataFrame:
    """The rows of one version, the newest by default."""
    with translated(f"reading {target}", location):
        reader = session.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(location)
