"""Writes one load to a branch of an Iceberg table, and publishes it by fast-forward or drops it.

Never writes to main, and never publishes a version without the load's own mark.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan, Mode, Prune
from tidegate.core.ports.format import Receipt, Staging
from tidegate.core.position import columns_name, property_name
from tidegate.core.slices import Slice
from tidegate.dialects.spark import Spark
from tidegate.errors import CommitConflict, CommitUnknown, InternalError, SchemaRefused, WriteError
from tidegate.formats.iceberg import ddl, replaced_columns
from tidegate.formats.iceberg import layout as layouts
from tidegate.formats.iceberg.catalog import no_branches
from tidegate.formats.iceberg.metadata import REPLACING, Metadata, Snapshot
from tidegate.formats.iceberg.overflow import MISPLACED, fitting, wrapping
from tidegate.formats.shared.listed_keys import listed
from tidegate.formats.shared.small_write import ALL_FILES, all_files, few, read_back, small_settings
from tidegate.formats.shared.statements import Statement, bound, carried, deleting, live, merging, together
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import completed, of_keys
from tidegate.spark.failures import translated
from tidegate.spark.remote import is_connect

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

MAIN = "main"
PROPERTY = "snapshot-property."
SESSION_PROPERTY = "spark.sql.iceberg.snapshot-property."
MERGE_MODES = {Mode.MERGE_ON_READ: "merge-on-read", Mode.COPY_ON_WRITE: "copy-on-write"}
TRIES = 5
PAUSE = 0.25
"""Seconds before a branch is made again, each time twice as long. Iceberg's client looks whether a connection is still
there only once it has been idle for two seconds, so that pauses must be longer than that together."""
# A first load is bound by the processor; maintenance compresses its files as the table says.
FIRST = {"compression-level": "1"}
# The rows of one partition of the source: there is nothing to bring together before they are written.
APART = {"distribution-mode": "none", "fanout-enabled": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergStaging(Staging):
    """A branch of a table, opened at the snapshot that the load's position was read from.

    Args:
        load: the table's metadata as of now, read without Spark.
        table: the table itself as of now, through PyIceberg.
    """

    invisible: ClassVar[bool] = True

    session: SparkSession
    target: Target
    plan: LoadPlan
    load: Callable[[], Metadata | None]
    table: Callable[[], Table | None]
    warehouse: str | None
    _ids: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def open(self) -> None:
        """Makes the branch at the plan's base.

        Raises:
            CommitConflict: the table is gone, or main is no longer at the base.
            Incompatible: the catalog keeps no branches (Nessie's REST catalog accepts one and drops it).
        """
        metadata = self._metadata()
        self._need_base(metadata)
        for name, value in self._settings(metadata.snapshot(metadata.main)).items():
            self.session.conf.set(name, value)
        self._branch_off(metadata)
        metadata = self._metadata()
        if metadata.head(self.plan.branch) is None:
            raise no_branches(self.target)
        try:
            # A branch without a base starts wherever main stands: at nothing, unless somebody was first.
            self._need_base(metadata)
        except CommitConflict:
            self.discard()
            raise
        if self.plan.evolution.source_columns is not None:  # of a stream; what Spark alone tells has no numbers
            self._ids.update(replaced_columns.ids_as_published(metadata, self.plan.replaced))

    def _branch_off(self, metadata: Metadata) -> None:
        at = f" AS OF VERSION {int(self.plan.base)}" if self.plan.base is not None else ""
        for attempt in range(1, TRIES + 1):
            if metadata.head(self.plan.branch) is not None:
                self.discard()
            try:
                with self._translated("opening"):
                    self.session.sql(f"ALTER TABLE {self._table} CREATE BRANCH {sql.quote(self.plan.branch)}{at}")
            except CommitUnknown:
                # A catalog that was started again loses connections that are kept open, and a branch loses nothing.
                if attempt == TRIES:
                    raise
                time.sleep(PAUSE * 2 ** (attempt - 1))
                metadata = self._metadata()
            else:
                return

    def append(self, rows: DataFrame) -> None:
        """Adds the rows, in one commit that carries the position."""
        self._fitting("writing to", rows, lambda fit: self._writer(fit).append())
        self._need_mark()

    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        """Replaces every row, or every row of these partitions, in one commit that carries the position."""
        if is_connect(self.session):
            from pyspark.sql.connect.functions import expr  # noqa: PLC0415 - the functions must be of the session's kind
        else:
            from pyspark.sql.functions import expr  # noqa: PLC0415 - as above
        in_steps = self.plan.write.mode is Mode.REPLACE_FILES
        where = "true" if parts is None else Spark().among(parts, self.plan.columns, pushed=not in_steps)
        if in_steps:
            # Not aligned with files of the table, so in two steps; the branch shows both or none.
            with self._translated("writing to"):
                self.session.sql(f"DELETE FROM {sql.table(self.target, self.plan.branch)} WHERE {where}")
            self._fitting("writing to", rows, lambda fit: self._writer(fit).append())
        else:
            apart = APART if parts is not None and len(parts) == 1 else {}
            self._fitting("writing to", rows, lambda fit: self._writer(fit).options(**apart).overwrite(expr(where)))
        self._need_mark()

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
        """Updates and inserts by key, in one commit that carries the position.

        Keys must be unique in `rows`: Iceberg inserts an unmatched key as often as it comes.
        """
        base = self._metadata().snapshot(None if self.plan.base is None else int(self.plan.base))
        table_rows = base.rows if base and not by else None
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
            self._fitting("merging into", rows, lambda fit: self._merged(fit, statement))
        self._need_mark()

    def delete(self, keys: DataFrame, *, prune: Sequence[Prune]) -> None:
        """Deletes, or marks, the rows of these keys, in one commit that carries the position."""
        self._merged(keys, deleting(self.plan, prune=prune))
        self._need_mark()

    def _fitting(self, doing: str, rows: DataFrame, write: Callable[[DataFrame], None]) -> None:
        """One write, of no row into a partition that would hold it among others, see `core.type_limits`."""
        fields = wrapping(self._metadata().raw)
        try:
            with self._translated(doing):
                write(fitting(rows, fields))
        except SchemaRefused as error:
            if not fields or MISPLACED not in str(error):
                raise
            with self._translated("changing the partitions of"):
                for statement in layouts.take_away(self.target, self._metadata(), fields):
                    self.session.sql(statement)
            with self._translated(doing):
                write(rows)

    def _merged(self, rows: DataFrame, statement: Statement) -> None:
        """One commit by a statement over the table's branch and a view of the rows."""
        mode = MERGE_MODES.get(self.plan.write.mode)
        if mode and self._metadata().properties.get("write.merge.mode") != mode:
            with self._translated("changing"):
                self.session.sql(ddl.set_property(self.target, "write.merge.mode", mode))
        marks = {SESSION_PROPERTY + name: text for name, text in self._marks().items()}
        view = f"tidegate_{self.plan.load_id}"
        with self._translated("merging into"):
            rows.createOrReplaceTempView(view)
            for name, text in marks.items():
                self.session.conf.set(name, text)
            try:
                self.session.sql(statement(sql.table(self.target, self.plan.branch), sql.quote(view)))
            finally:
                for name in marks:
                    self.session.conf.unset(name)
                self.session.catalog.dropTempView(view)

    def read(self) -> DataFrame:
        with self._translated("reading"):
            version = f"{self._table} VERSION AS OF {sql.string(self.plan.branch)}"
            rows = self.session.sql(f"SELECT * FROM {version} WHERE {live(self.plan)}")
            return replaced_columns.as_published(rows, self.plan.replaced)

    def read_keys(self, keys: DataFrame | None, *, prune: Sequence[Prune]) -> DataFrame:
        with self._translated("reading"):
            within = self.read().where(" AND ".join(bound(each) for each in prune) or "true")
            if keys is None:
                return within
            return of_keys(within, keys.hint("broadcast") if few(self.plan) else keys, keys.columns)

    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these partitions, as committed; other files are pruned."""
        with self._translated("reading"):
            return self.read().where(Spark().among(parts, self.plan.columns))

    def read_added(self) -> DataFrame:
        if self.plan.base is None:
            return self.read()
        with self._translated("reading"):
            reader = self.session.read.option("start-snapshot-id", self.plan.base)
            return reader.option("end-snapshot-id", str(self._head().id)).table(self._table)

    def written(self) -> pa.Table | None:
        """The rows that the load's one commit added or replaced, see `Staging.written`."""
        mode, columns = self.plan.write.mode, self.plan.columns
        whole = mode is Mode.OVERWRITE_PARTITIONS
        if not (whole or mode in (Mode.APPEND, Mode.MERGE_ON_READ)) or not read_back(self.plan):
            return None
        if (table := self.table()) is None:
            return None
        from tidegate.formats.iceberg import readback  # noqa: PLC0415 - its import takes a second

        if whole:
            return readback.among(table, self._head().id, self.plan.changes.slices, columns=columns)
        key = () if mode is Mode.APPEND else self.plan.key
        names = [column.name for column in columns.covered]
        return readback.added(table, self._head().id, columns=names, key=key)

    def receipt(self) -> Receipt:
        """What the load's commits did, in their own words."""
        head = self._head()
        if self.plan.write.mode is not Mode.REPLACE_FILES:
            return head.receipt()
        # Added last, deleted before, by whole files or by position; files rewritten for a part hold no new row.
        deleted = sum(
            step.number("deleted-records") + step.number("added-position-deletes") - step.number("added-records")
            for step in self._steps(head)[1:]
        )
        return Receipt(snapshot=str(head.id), rows_inserted=head.number("added-records"), rows_deleted=deleted)

    def publish(self) -> Receipt:
        """Moves main to the branch if main is still at the base, then drops the branch.

        Raises:
            CommitConflict: main has moved; the table stays as somebody else left it.
            CommitUnknown: nobody knows whether main moved; the next run looks.
        """
        head = self._head()
        replaced = self.plan.write.mode is Mode.REPLACE_FILES
        receipt = self.receipt() if replaced else together([step.receipt() for step in self._steps(head)])
        for attempt in range(1, TRIES + 1):
            try:
                with self._translated("publishing to"):
                    if self.plan.replaced:
                        replaced_columns.publish(self.session, self._table, self.plan, self._marks())
                    else:
                        self._fast_forward()
            except (CommitConflict, CommitUnknown, WriteError) as error:
                if not self._published(head, error):
                    if isinstance(error, CommitConflict) and attempt < TRIES and self._at_base():
                        continue  # somebody changed a property or another branch, which is no reason to give up
                    raise
            break
        # What a catalog answers is not what it did: the table shows whether readers see the load.
        metadata = self._asked()
        if not _shows(metadata, head):
            raise CommitUnknown(f"the catalog accepted a load of {self.target} that the table does not show")
        if self.plan.replaced:
            receipt = replace(receipt, snapshot=str(metadata.main))
        # Visible is what counts; a branch that cannot be dropped now is dropped by the next run.
        with contextlib.suppress(WriteError):
            self.discard()
        return receipt

    def discard(self) -> None:
        drop_branch(self.session, self.target, self.plan.branch, self.warehouse)
        if self.plan.replaced and (metadata := self.load()) is not None:
            with self._translated("changing the columns of"):
                for statement in replaced_columns.drop_left(self.target, metadata):
                    self.session.sql(statement)

    @property
    def _table(self) -> str:
        return sql.table(self.target)

    def _settings(self, base: Snapshot | None) -> Mapping[str, str]:
        copied = ALL_FILES if base is not None and all_files(self.plan, base.rows) else {}
        return {**copied, **small_settings(self.plan, 0 if base is None else base.rows)}

    def _writer(self, rows: DataFrame) -> Any:
        wanted = replaced_columns.as_written(
            completed(rows, self.plan.table, *map(sql.quote, carried(rows, self.plan))), self.plan.replaced
        )
        writer = wanted.writeTo(sql.table(self.target, self.plan.branch))
        writer = writer.options(**{PROPERTY + name: text for name, text in self._marks().items()})
        return writer.options(**FIRST) if self.plan.evolution.create else writer

    def _metadata(self) -> Metadata:
        metadata = self.load()
        if metadata is None:
            raise CommitConflict(f"table {self.target} no longer exists", hint="Run again.")
        return metadata

    def _need_base(self, metadata: Metadata) -> None:
        if self.plan.base != (None if metadata.main is None else str(metadata.main)):
            raise CommitConflict(f"table {self.target} has changed since the load was planned")

    def _head(self) -> Snapshot:
        metadata = self._metadata()
        head = metadata.snapshot(metadata.head(self.plan.branch))
        if head is None:
            # Published and dropped already: the mark tells which one it was.
            head = next((each for each in metadata.ancestors(metadata.main) if self._marked(each)), None)
        if head is None:
            raise CommitConflict(f"the load's version of table {self.target} no longer exists")
        return head

    def _steps(self, head: Snapshot) -> list[Snapshot]:
        """The load's own commits, the last one first."""
        after = itertools.takewhile(lambda each: str(each.id) != self.plan.base, self._metadata().ancestors(head.id))
        return list(after)

    def _marks(self) -> Mapping[str, str]:
        """The properties of the load's commits: its position, and which column of the source each column is."""
        marks = {property_name(self.plan.uid): self.plan.position.to_json()}
        if (columns := self.plan.evolution.source_columns) is not None:
            marks[columns_name(self.plan.uid)] = columns.to_json(self._ids)
        return marks

    def _marked(self, snapshot: Snapshot) -> bool:
        return snapshot.summary.get(property_name(self.plan.uid)) == self.plan.position.to_json()

    def _need_mark(self) -> None:
        if self._marked(self._head()):
            return
        # A merge that changes nothing makes no commit, but the position has to move all the same.
        nothing = self.session.sql(f"SELECT * FROM {self._table} LIMIT 0")
        with self._translated("writing to"):
            writer = nothing.writeTo(sql.table(self.target, self.plan.branch))
            writer.options(**{PROPERTY + name: text for name, text in self._marks().items()}).append()
        if not self._marked(self._head()):
            raise InternalError("a commit does not have the position that was written with it")

    def _at_base(self) -> bool:
        metadata = self._metadata()
        return self.plan.base == (None if metadata.main is None else str(metadata.main))

    def _fast_forward(self) -> None:
        self.session.sql(
            f"CALL {sql.quote(self.target.lake)}.system.fast_forward(table => {sql.string(self._table)}, "
            f"branch => {sql.string(MAIN)}, to => {sql.string(self.plan.branch)})"
        ).collect()

    def _published(self, head: Snapshot, error: Exception) -> bool:
        try:
            return _shows(self._asked(), head)
        except CommitUnknown:
            if isinstance(error, CommitConflict):
                raise error from None  # it was refused
            raise

    def _asked(self) -> Metadata:
        """The table after its catalog was told to publish; CommitUnknown if it cannot be asked any more."""
        try:
            return self._metadata()
        except CommitConflict:
            raise
        except WriteError as error:
            raise CommitUnknown(
                f"the lake's catalog was lost while a load of {self.target} was being published: {error.message}"
            ) from error

    def _translated(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return translated(f"{doing} {self.target}", self.warehouse)


def _shows(metadata: Metadata, head: Snapshot) -> bool:
    """Whether readers of the table see that snapshot, or one that came after it."""
    return any(each.id == head.id for each in metadata.ancestors(metadata.main))


def drop_leftovers(session: SparkSession, target: Target, names: Sequence[str], warehouse: str | None) -> None:
    """Drops branches, and columns that have not taken the place of others, see `Metadata.left`."""
    for name in names:
        if not name.startswith(REPLACING):
            drop_branch(session, target, name, warehouse)
    with translated(f"changing the columns of {target}", warehouse):
        for name in names:
            if name.startswith(REPLACING):
                session.sql(f"ALTER TABLE {sql.table(target)} DROP COLUMN {sql.quote(name)}")


def drop_branch(session: SparkSession, target: Target, branch: str, warehouse: str | None) -> None:
    with translated(f"dropping a branch of {target}", warehouse):
        session.sql(f"ALTER TABLE {sql.table(target)} DROP BRANCH IF EXISTS {sql.quote(branch)}")
