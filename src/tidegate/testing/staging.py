"""A load of a table in memory: a branch that is published or dropped, or a commit that is seen at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan, Mode, Prune
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.ports.format import Receipt, Staging
from tidegate.core.schema import Schema
from tidegate.core.slices import Keys, Slice
from tidegate.errors import CommitConflict, InternalError, WriteError
from tidegate.formats.shared.statements import together
from tidegate.testing.frames import arrow_table, collected, frame
from tidegate.testing.rows import Row, Rows
from tidegate.testing.tables import Seen, Table, Tables, Version

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

ROWS_ALONE = frozenset({Mode.APPEND, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE})
"""Modes in which the rows that a load reads are those that it writes, but for equal ones."""


@dataclass(slots=True, kw_only=True)
class Change:
    """The rows of a table after one write, those of them that it inserted or updated, and how many went."""

    rows: list[Row] = field(default_factory=list)
    written: list[Row] = field(default_factory=list)
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStaging(Staging):
    """A load of a table, opened at the version that the load's position was read from."""

    session: SparkSession
    tables: Tables
    target: Target
    plan: LoadPlan
    seen: Seen

    @property
    def invisible(self) -> bool:
        """Whether nobody sees the write before it is published."""
        return self.seen is Seen.PUBLISHED

    def append(self, rows: DataFrame) -> None:
        """Adds the rows."""
        new = self._collected(rows)
        self._commit(lambda held: Change(rows=[*held.rows, *new], written=new))

    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        """Replaces every row, or every row of these slices."""
        new = self._collected(rows)

        def replaced(held: Rows) -> Change:
            kept = (
                [] if parts is None else [row for row in held.rows if not any(held.holds(each, row) for each in parts)]
            )
            return Change(rows=[*kept, *new], written=new, deleted=len(held.rows) - len(kept))

        self._commit(replaced)

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
        """Updates and inserts by key; keys must be unique in `rows`.

        Raises:
            WriteError: two of the rows have one key and a row of the table to update.
        """
        merge = _Merge(
            plan=self.plan, key=tuple(by or self.plan.key), skip_equal=skip_equal, delete_if=delete_if, again=again
        )
        columns = self.plan.table.names if by else self.plan.columns.names
        new = self._collected(rows)
        self._commit(lambda held: merge.merged(held, new, prune=prune, columns=columns))

    def delete(self, keys: DataFrame, *, prune: Sequence[Prune]) -> None:
        """Deletes, or marks, the rows of these keys."""
        merge = _Merge(plan=self.plan, key=self.plan.key, skip_equal=False, delete_if=_GONE, again=None)
        found = [{**row, _GONE: True} for row in self._collected(keys)]
        self._commit(lambda held: merge.merged(held, found, prune=prune, columns=self.plan.key))

    def read(self) -> DataFrame:
        """The whole version, as committed, without rows that are marked as deleted."""
        return self._frame(self._held().rows)

    def read_keys(self, keys: DataFrame | None, *, prune: Sequence[Prune]) -> DataFrame:
        """The rows, as committed, whose key is among `keys` and within `prune`."""
        held = self._held()
        within = [row for row in held.rows if all(held.within(each, row) for each in prune)]
        if keys is None:
            return self._frame(within)
        names = keys.columns
        wanted = {tuple(row[name] for name in names) for row in self._collected(keys)}
        found = (row for row in within if None not in (key := _key(row, names)) and key in wanted)
        return self._frame(list(found))

    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these slices, as committed."""
        return self._frame(self._held().among(parts))

    def read_added(self) -> DataFrame:
        """The rows that an append added, as committed."""
        with self.tables.lock:
            table = self.tables.table(self.target)
            added = table.named(self._head(table).written)
        return self._frame(added)

    def written(self) -> pa.Table | None:
        """The rows that the load's one commit wrote, see `Staging.written`."""
        with self.tables.lock:
            table = self.tables.table(self.target)
            steps = self._steps(table, self._head(table))
            rows: Sequence[Row] = table.named(steps[0].written)
        if len(steps) > 1 or self.plan.deletes.policy.soft or self.plan.write.mode not in ROWS_ALONE:
            return None
        return arrow_table(self.plan.columns.covered, rows)

    def receipt(self) -> Receipt:
        """What the load's commits did to rows."""
        with self.tables.lock:
            table = self.tables.table(self.target)
            return together([step.receipt for step in self._steps(table, self._head(table))])

    def publish(self) -> Receipt:
        """Makes the branch the visible version, if the table still stands where the load was planned.

        What is seen at once is visible already.

        Raises:
            CommitConflict: the table has moved; it stays as somebody else left it.
            InternalError: nothing was written that carries the position.
        """
        with self.tables.lock:
            table = self.tables.table(self.target)
            head = self._head(table)
            if not self.invisible:
                return self.receipt()
            if table.head != self.plan.base:
                raise CommitConflict(f"table {self.target} has changed since the load was planned")
            receipt = self.receipt()
            table.head = head.id
            table.branches.pop(self.plan.branch, None)
            return receipt

    def discard(self) -> None:
        """Drops the branch, if it is there; a commit that is seen stays."""
        self.tables.drop_branches(self.target, [self.plan.branch])

    def _commit(self, change: Callable[[Rows], Change]) -> None:
        with self.tables.lock:
            table = self.tables.table(self.target)
            base = self._version(table)
            if self.invisible and self.plan.branch not in table.branches:
                raise CommitConflict(f"the load's version of table {self.target} no longer exists")
            if not self.invisible and table.head != base:
                raise CommitConflict(f"table {self.target} has changed since the load was planned")
            done = change(Rows(schema=Schema(columns=table.fields), rows=tuple(table.rows(base))))
            receipt = Receipt(
                snapshot=None,
                rows_inserted=len(done.written) - done.updated,
                rows_updated=done.updated,
                rows_deleted=done.deleted,
            )
            made = self.tables.commit(
                table,
                Version(
                    id="",
                    parent=base,
                    rows=tuple(map(table.placed, done.rows)),
                    written=tuple(map(table.placed, done.written)),
                    marks={self.plan.uid: self.plan.position.to_json()},
                    receipt=receipt,
                ),
            )
            if self.invisible:
                table.branches[self.plan.branch] = made
            else:
                table.head = made

    def _head(self, table: Table) -> Version:
        """The last version that the load wrote, published or not."""
        head = self._written(table)
        if head is None:
            raise InternalError(f"load {self.plan.load_id} has not been committed")
        return head

    def _written(self, table: Table) -> Version | None:
        mark = self.plan.position.to_json()
        versions = table.ancestors(table.branches.get(self.plan.branch, table.head))
        return next((each for each in versions if each.marks.get(self.plan.uid) == mark), None)

    def _version(self, table: Table) -> str | None:
        """The last version that the load wrote, or its base before a write."""
        written = self._written(table)
        return self.plan.base if written is None else written.id

    def _steps(self, table: Table, head: Version) -> list[Version]:
        mark = self.plan.position.to_json()
        return [each for each in table.ancestors(head.id) if each.marks.get(self.plan.uid) == mark]

    def _held(self) -> Rows:
        """The live rows of the load's version, or of its base before a write."""
        with self.tables.lock:
            table = self.tables.table(self.target)
            rows = table.rows(self._version(table))
        live = (row for row in rows if not self.plan.deletes.policy.soft or row[DELETED_AT] is None)
        return Rows(schema=Schema(columns=table.fields), rows=tuple(live))

    def _frame(self, rows: Sequence[Row]) -> DataFrame:
        with self.tables.lock:
            fields = self.tables.table(self.target).fields
        return frame(self.session, fields, rows)

    def _collected(self, rows: DataFrame) -> list[Row]:
        return list(collected(rows, f"writing to {self.target}"))


_GONE = "__tidegate_gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """A merge as SQL means it, see `Staging.merge`."""

    plan: LoadPlan
    key: tuple[str, ...]
    skip_equal: bool
    delete_if: str | None
    again: str | None

    def merged(self, held: Rows, new: Sequence[Row], *, prune: Sequence[Prune], columns: Sequence[str]) -> Change:
        """The rows after it."""
        if not self.key:
            raise InternalError("a merge without a key")
        nulls = any(isinstance(part, Keys) and part.nulls for part in self.plan.changes.slices)
        waiting: dict[tuple[Any, ...], list[Row]] = {}
        for row in new:
            waiting.setdefault(_key(row, self.key), []).append(row)
        met, change = set(), Change()
        for row in held.rows:
            key = _key(row, self.key)
            named = key in waiting and (nulls or None not in key) and all(held.within(each, row) for each in prune)
            if not named:
                change.rows.append(row)
                continue
            met.add(key)
            if len(waiting[key]) > 1:
                raise WriteError(f"several rows of one key were to be merged into {self.plan.stream.target}")
            kept = self._matched(row, waiting[key][0], columns)
            change.rows += [] if kept is None else [kept]
            change.deleted += kept is None
            if kept is not None and kept is not row:
                change.updated += 1
                change.written.append(kept)
        unmet = (row for key, rows in waiting.items() if key not in met for row in rows)
        added = [{name: row[name] for name in columns} for row in unmet if not self._is(self.delete_if, row)]
        change.rows += added
        change.written += added
        return change

    def _matched(self, row: Row, new: Row, columns: Sequence[str]) -> Row | None:
        """What becomes of a row of the table whose key is merged; None where it goes."""
        soft, deleted = self.plan.deletes.policy.soft, self._is(self.delete_if, new)
        if deleted and (not soft or self._is(self.again, new)):
            return None
        if deleted:
            return row if row[DELETED_AT] is not None else {**row, DELETED_AT: self.plan.created_at}
        if soft and self._is(self.again, new):
            return None
        wanted = {**row, **{name: new[name] for name in columns if name not in self.key}}
        if soft:
            wanted[DELETED_AT] = None
        if set(columns) <= set(self.key) and not soft:
            return row
        same = all(_same(row.get(name), value) for name, value in wanted.items())
        return row if self.skip_equal and same else wanted

    @staticmethod
    def _is(name: str | None, row: Mapping[str, Any]) -> bool:
        return name is not None and bool(row[name])


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal as SQL's `<=>` has it: NULL to NULL, NaN to NaN."""
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - only NaN differs from itself
