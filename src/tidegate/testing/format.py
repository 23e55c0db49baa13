"""A table format that keeps its tables in memory: versions are tuples of rows, and commits carry positions.

Writes no files and needs no jar or catalog. What a load writes is seen when it is published, as on Iceberg, or at once,
as on Delta.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.column_selection import every
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan, Prune, branch_prefix
from tidegate.core.ports.format import Format, Layout, SinceLoad, TableState
from tidegate.core.position import Position
from tidegate.core.schema import Column, Schema, SchemaChange
from tidegate.errors import CommitConflict, VersionGone
from tidegate.formats.shared.statements import evolved
from tidegate.testing.frames import frame
from tidegate.testing.rows import Row
from tidegate.testing.staging import MemoryStaging
from tidegate.testing.tables import Seen, Table, Tables, Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MemoryFormat(Format):
    """Tables in memory as a lake, for tests; safe for many threads.

    Args:
        name: the lake.
        seen: when readers see what a load writes.
    """

    kind: ClassVar[str] = "memory"

    def __init__(self, name: str = "lake", *, seen: Seen = Seen.PUBLISHED) -> None:
        self.name = name
        self.seen = seen
        self.tables = Tables()

    @property
    def invisible(self) -> bool:
        """Whether nobody sees a load's write before it is published."""
        return self.seen is Seen.PUBLISHED

    def copy(self) -> MemoryFormat:
        """The same tables as of now; what happens to one lake from now on does not happen to the other."""
        other = MemoryFormat(self.name, seen=self.seen)
        other.tables = self.tables.copy()
        return other

    def rows(self, target: Target) -> list[dict[str, Any]]:
        """The visible rows, by name of column; none where there is no table."""
        with self.tables.lock:
            table = self.tables.known.get(target)
            return [] if table is None else table.rows(table.head)

    def insert(self, target: Target, *rows: Row) -> None:
        """Rows that somebody else adds, in a commit without a position."""
        with self.tables.lock:
            table = self.tables.table(target)
            placed = tuple(map(table.placed, rows))
            held = table.versions[table.head].rows if table.head is not None else ()
            table.head = self.tables.commit(
                table, Version(id="", parent=table.head, rows=(*held, *placed), written=placed)
            )

    def add_column(self, target: Target, column: Column) -> None:
        """A column that somebody else adds, which moves no row."""
        with self.tables.lock:
            table = self.tables.table(target)
            table.fields = (*table.fields, column)

    def state(self, target: Target, uid: str, *, takes: Callable[[str], bool] = every) -> TableState:
        """What the table says of itself."""
        with self.tables.lock:
            table = self.tables.known.get(target)
            if table is None:
                return TableState(exists=False)
            carried = [
                (Position.from_json(version.marks[uid]), version.id)
                for version in table.ancestors(table.head)
                if uid in version.marks
            ]
            position, snapshot = carried[0] if carried else (None, None)
            return TableState(
                exists=True,
                uuid=table.uuid,
                snapshot=table.head,
                rows=len(table.rows(table.head)),
                position=position,
                position_snapshot=snapshot,
                last_sequence=max((each.sequence for each, _ in carried), default=0),
                branches=tuple(name for name in table.branches if name.startswith(branch_prefix(uid))),
                schema=Schema(
                    columns=tuple(each for each in table.fields if takes(each.name)),
                    excluded=tuple(each.name for each in table.fields if not takes(each.name)),
                ),
                since_load=SinceLoad(same_rows=snapshot is not None and snapshot == table.head),
            )

    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Yes: nothing is known of a table but its rows."""
        del target, bound
        return True

    def layout_problems(self, layout: Layout, columns: Schema | None = None) -> Iterable[str]:
        """None: any layout is accepted and ignored."""
        del layout, columns
        return ()

    def partition_by(self, grouping: Grouping) -> tuple[str, ...]:
        """Nothing: a table has no files."""
        del grouping
        return ()

    def aligned(self, target: Target, grouping: Grouping) -> bool:
        """True: any rows are replaced without touching others."""
        del target, grouping
        return True

    def spark_conf(self) -> Mapping[str, str]:
        """None: Spark sees rows only."""
        return {}

    def jars(self) -> tuple[str, ...]:
        """None."""
        return ()

    def read(self, session: SparkSession, target: Target, snapshot: str | None) -> DataFrame:
        """The rows of one version of the table, the visible one by default.

        Raises:
            VersionGone: the table has no such version.
        """
        with self.tables.lock:
            table = self.tables.table(target)
            version = snapshot or table.head
            if version is not None and version not in table.versions:
                raise VersionGone(f"table {target} has no version {version}")
            fields, rows = table.fields, table.rows(version)
        return frame(session, fields, rows)

    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Makes an empty table; a table that is there stays as it is."""
        del session, layout
        fields = tuple(replace(column, type=column.type.stored, nullable=True) for column in schema)
        with self.tables.lock:
            self.tables.known.setdefault(target, Table(uuid=uuid.uuid4().hex, fields=fields))

    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Adds, renames and widens columns; rows that are there read NULL in the new ones."""
        del session
        evolution = evolved(changes, schema)
        widened = {column.name: column.type.stored for column in evolution.widened}
        with self.tables.lock:
            table = self.tables.table(target)
            named = (replace(each, name=evolution.renamed.get(each.name, each.name)) for each in table.fields)
            kept = [replace(each, type=widened.get(each.name, each.type)) for each in named]
            added = (replace(each, type=each.type.stored, nullable=True) for each in evolution.added)
            table.fields = (*kept, *added)

    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> MemoryStaging:
        """Opens the table at `plan.base`, as a branch where a load is not seen at once.

        Raises:
            CommitConflict: the table is gone or has moved on.
        """
        with self.tables.lock:
            table = self.tables.known.get(target)
            if table is None:
                raise CommitConflict(f"table {target} no longer exists", hint="Run again.")
            if table.head != plan.base:
                raise CommitConflict(f"table {target} has changed since the load was planned")
            if self.invisible:
                table.branches[plan.branch] = plan.base
        return MemoryStaging(session=session, tables=self.tables, target=target, plan=plan, seen=self.seen)

    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Drops what a crash left behind."""
        del session
        self.tables.drop_branches(target, branches)
