"""SQL that all table formats share: merge, its bounds, new columns, namespaces.

All names are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidegate.core.plan import LoadPlan, Prune
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.ports.format import Receipt
from tidegate.core.schema import REPLACED, TIMESTAMPTZ, ChangeKind, Column, Schema, SchemaChange
from tidegate.core.slices import Keys
from tidegate.core.spelling import suggest
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, InternalError
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import CARRIED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Statement = Callable[[str, str], str]
"""Of a table and a view, as they stand in it."""

LONG_LIST = 200
"""Beyond so many values Iceberg prunes no file by a list (`InclusiveMetricsEvaluator`), but still by bounds."""
RENAMING = "_tidegate_renaming_"
"""What the name of a column begins with between two of its names."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def merge(  # noqa: PLR0913 - what a merge is made of
    into: str,
    view: str,
    *,
    columns: Sequence[str],
    key: Sequence[str],
    prune: Sequence[Prune] = (),
    skip_equal: bool = False,
    delete_if: str | None = None,
    again: str | None = None,
    marked: tuple[str, str] | None = None,
    nulls: bool = False,
    carried: Sequence[str] = (),
) -> str:
    """The statement that updates rows of a known key, inserts the others and deletes those for which `delete_if` holds.

    Args:
        into, view: as they stand in a statement.
        again: a column that is true for a row whose key is deleted for good, because its row comes again.
        marked: a column of the table and a literal: rows for which `delete_if` holds stay and get it, others get NULL.
        nulls: a NULL in a key is equal to another one.
        carried: more columns, of which a row has a value where its `CARRIED` names them; others keep the table's.

    Raises:
        InternalError: there is no key.
    """
    text = _matching(into, view, key, prune, nulls=nulls)
    others = [name for name in columns if name not in key]
    new = f" AND NOT s.{sql.quote(delete_if)}" if delete_if else ""
    same = [f"t.{sql.quote(name)} <=> s.{sql.quote(name)}" for name in others]
    assigned = [f"t.{sql.quote(name)} = s.{sql.quote(name)}" for name in others]
    if carried:
        same.append(f"s.{CARRIED} IS NULL")
        brings = (f"coalesce(array_contains(s.{CARRIED}, {sql.string(name)}), false)" for name in carried)
        assigned += [
            f"t.{sql.quote(name)} = CASE WHEN {brought} THEN s.{sql.quote(name)} ELSE t.{sql.quote(name)} END"
            for name, brought in zip(carried, brings, strict=True)
        ]
        columns = [*columns, *carried]
    if marked:
        mark = f"t.{sql.quote(marked[0])}"
        text += f" WHEN MATCHED AND s.{sql.quote(again)} THEN DELETE" if again else ""
        if delete_if:
            text += (
                f" WHEN MATCHED AND s.{sql.quote(delete_if)} AND {mark} IS NULL THEN UPDATE SET {mark} = {marked[1]}"
            )
        same, assigned = [*same, f"{mark} IS NULL"], [*assigned, f"{mark} = NULL"]
    elif delete_if:
        text += f" WHEN MATCHED AND s.{sql.quote(delete_if)} THEN DELETE"
    if assigned:
        differs = f" AND NOT ({' AND '.join(same)})" if skip_equal else ""
        text += f" WHEN MATCHED{new if marked else ''}{differs} THEN UPDATE SET {', '.join(assigned)}"
    return f"{text} WHEN NOT MATCHED{new} THEN INSERT ({sql.names(columns)}) VALUES ({sql.names(columns, 's')})"


def delete(
    into: str, view: str, *, key: Sequence[str], prune: Sequence[Prune], marked: tuple[str, str] | None = None
) -> str:
    """The statement that deletes the rows of the keys of `view`, or marks those that are not marked, see `merge`.

    Raises:
        InternalError: there is no key.
    """
    text = f"{_matching(into, view, key, prune)} WHEN MATCHED"
    if marked is None:
        return f"{text} THEN DELETE"
    mark = f"t.{sql.quote(marked[0])}"
    return f"{text} AND {mark} IS NULL THEN UPDATE SET {mark} = {marked[1]}"


def _matching(into: str, view: str, key: Sequence[str], prune: Sequence[Prune], *, nulls: bool = False) -> str:
    if not key:
        raise InternalError("a merge without a key")
    equal = "<=>" if nulls else "="
    on = [f"t.{sql.quote(name)} {equal} s.{sql.quote(name)}" for name in key] + [bound(each, "t.") for each in prune]
    return f"MERGE INTO {into} t USING {view} s ON {' AND '.join(on)}"


def merging(  # noqa: PLR0913 - what a merge is made of
    plan: LoadPlan,
    *,
    prune: Sequence[Prune],
    skip_equal: bool,
    delete_if: str | None,
    again: str | None,
    by: Sequence[str],
    carried: Sequence[str],
) -> Statement:
    """The merge of a load, see `Staging.merge` and `merge`."""
    return partial(
        merge,
        columns=plan.table.names if by else plan.columns.names,
        key=by or plan.key,
        prune=prune,
        skip_equal=skip_equal,
        delete_if=delete_if,
        again=again,
        marked=marked(plan),
        nulls=any(isinstance(part, Keys) and part.nulls for part in plan.changes.slices),
        carried=carried,
    )


def carried(rows: DataFrame, plan: LoadPlan) -> tuple[str, ...]:
    """The columns that the load does not write and the rows have all the same, see `Verdicts.carried`."""
    return plan.evolution.unwritten if CARRIED in rows.columns else ()


def deleting(plan: LoadPlan, *, prune: Sequence[Prune]) -> Statement:
    """The merge of a load that only deletes, see `Staging.delete`."""
    return partial(delete, key=plan.key, prune=prune, marked=marked(plan))


def marked(plan: LoadPlan) -> tuple[str, str] | None:
    """The column that marks deleted rows, and the load's mark; None where they are deleted for good."""
    if not plan.deletes.policy.soft:
        return None
    at = plan.created_at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return DELETED_AT, Spark().literal(TIMESTAMPTZ, at)


def live(plan: LoadPlan) -> str:
    """The condition of rows that are not marked as deleted."""
    return f"{sql.quote(DELETED_AT)} IS NULL" if plan.deletes.policy.soft else "true"


def together(receipts: Sequence[Receipt]) -> Receipt:
    """What several commits of one load did, the last one first."""
    return replace(
        receipts[0],
        rows_inserted=sum(each.rows_inserted for each in receipts),
        rows_updated=sum(each.rows_updated for each in receipts),
        rows_deleted=sum(each.rows_deleted for each in receipts),
    )


def bound(prune: Prune, prefix: str = "") -> str:
    """The predicate of a bound, in literals that a format prunes files by."""
    dialect = Spark()
    column = f"{prefix}{sql.quote(prune.column)}"
    low = dialect.compared(column, ">=", prune.type, prune.low)
    within = f"{low} AND {dialect.compared(column, '<=', prune.type, prune.high)}"
    if not prune.values:
        return within
    listed = f"{column} IN ({', '.join(dialect.literal(prune.type, value) for value in prune.values)})"
    return listed if len(prune.values) <= LONG_LIST else f"{listed} AND {within}"


class AlteredColumns(NamedTuple):
    """What becomes of a table's columns: those that are added and widened, as the load has them, and new names.

    `relaxed` are the names of those that may be NULL from now on.
    """

    added: Sequence[Column]
    widened: Sequence[Column]
    renamed: Mapping[str, str]
    relaxed: Sequence[str] = ()


def evolved(changes: Sequence[SchemaChange], schema: Schema) -> AlteredColumns:
    """The columns that are added and those that are widened, and old names to new ones.

    Raises:
        InternalError: a change that is none of these.
    """
    added: list[Column] = []
    widened: list[Column] = []
    renamed: dict[str, str] = {}
    relaxed = [change.column for change in changes if change.kind is ChangeKind.NULLABILITY]
    for change in (change for change in changes if change.kind is not ChangeKind.NULLABILITY):
        column = schema.find(change.column)
        if change.kind in REPLACED:
            continue  # each format has its own way
        if change.kind is ChangeKind.RENAME and column is not None and change.old is not None:
            renamed[change.old] = column.name
            continue
        if column is None or change.kind not in (ChangeKind.ADD_COLUMN, ChangeKind.WIDEN):
            raise InternalError(f"a change {change.kind} of column {change.column!r} cannot be applied to a table")
        (added if change.kind is ChangeKind.ADD_COLUMN else widened).append(column)
    return AlteredColumns(added, widened, renamed, relaxed)


def evolve(table: str, altered: AlteredColumns) -> Iterator[str]:
    """The statements that rename columns, add others, all in one, and widen others."""
    for old, new in altered.renamed.items():
        was = old
        if old.casefold() == new.casefold():  # for Spark that is the name of a column that is there
            was = f"{RENAMING}{new}"
            yield f"ALTER TABLE {table} RENAME COLUMN {sql.quote(old)} TO {sql.quote(was)}"
        yield f"ALTER TABLE {table} RENAME COLUMN {sql.quote(was)} TO {sql.quote(new)}"
    if altered.added:
        columns = ", ".join(column_text(replace(column, nullable=True)) for column in altered.added)
        yield f"ALTER TABLE {table} ADD COLUMNS ({columns})"
    for column in altered.widened:
        yield f"ALTER TABLE {table} ALTER COLUMN {sql.quote(column.name)} TYPE {column.type.spark}"
    for name in altered.relaxed:
        yield f"ALTER TABLE {table} ALTER COLUMN {sql.quote(name)} DROP NOT NULL"


def column_text(column: Column) -> str:
    """A column as CREATE TABLE and ADD COLUMNS list it.

    Example:
        >>> from tidegate.core.schema import BIGINT
        >>> column_text(Column(name="id", type=BIGINT, nullable=False, comment="who"))
        "`id` bigint NOT NULL COMMENT 'who'"
    """
    required = "" if column.nullable else " NOT NULL"
    comment = f" COMMENT {sql.string(column.comment)}" if column.comment else ""
    return f"{sql.quote(column.name)} {column.type.spark}{required}{comment}"


def known(name: str, schema: Schema, where: str) -> str:
    """The column's name.

    Args:
        where: the key of `layout:` that names it.

    Raises:
        ConfigError: the table has no such column.
    """
    if schema.find(name) is None:
        near = suggest(name, schema.names)
        raise ConfigError(f"layout: {where} names {name!r}, which is not a column of the table; {near}", column=name)
    return name


def problem_of(work: Callable[[], object]) -> Iterator[str]:
    """What is wrong with a part of a layout; nothing where nothing is."""
    try:
        work()
    except ConfigError as error:
        yield error.message


def pairs(properties: Mapping[str, str]) -> str:
    """Properties of a table as the grammar lists them."""
    return ", ".join(f"{sql.string(key)} = {sql.string(value)}" for key, value in properties.items())


def plain(name: str) -> bool:
    """Whether a name can be a folder's as it is."""
    return _PLAIN_NAME.fullmatch(name) is not None


def folder(name: str) -> str:
    """The name of a folder for a table or namespace of any name; no slash, dot or quote becomes a part of a path.

    Example:
        >>> folder("orders"), folder("../etc")
        ('orders', '~-2e--2e--2f-etc')
    """
    if plain(name):
        return name
    return "~" + "".join(char if char.isascii() and char.isalnum() else f"-{ord(char):x}-" for char in name)
