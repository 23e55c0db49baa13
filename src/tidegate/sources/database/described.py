"""Columns and safe bounds of a relation as its session describes them; an unknown name is reported with the nearest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidegate.core.bounds import BoundRequest, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import join_name
from tidegate.core.policies.retention import Kept
from tidegate.core.ports.dialect import PreSnapshotSession, Relation, Session
from tidegate.core.schema import Schema
from tidegate.core.spelling import nearest, suggest
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.shared.time_bounds import TIMES, must_be_alike
from tidegate.errors import ColumnMissing, ConfigError, InternalError, TidegateError


def taken(
    session: PreSnapshotSession, relation: Relation, selection: ColumnSelection, bound: BoundRequest
) -> SafeBound:
    """The bound as a session tells it that has answered nothing else yet.

    Raises:
        EdgeUnknown: no bound can be known.
        ColumnMissing, ConfigError: there is no such column, or it cannot be followed.
    """
    found = described(session, relation, selection)
    column = found.find(bound.column)
    if column is None:
        near = suggest(bound.column, found.names)
        raise ColumnMissing(f"{relation.label} has no column {bound.column!r}; {near}", column=bound.column)
    if isinstance(bound, TimeBound) and (fallback := found.find(bound.fallback or "")) is not None:
        must_be_alike([column, fallback])
    if isinstance(bound, SequenceBound):
        return session.safe_sequence_bound(relation, column, wait=bound.wait)
    edge = session.safe_time_bound(relation, column, clock=bound.clock, lag=bound.lag, time_zone=bound.time_zone)
    if bound.lookback and column.type.kind not in TIMES:
        raise ConfigError(
            f"column {column.name!r} holds {column.type}, which are no times, so `lookback` means nothing for it",
            hint="Leave `lookback` out: no row is added below the bound of such a column.",
            column=column.name,
        )
    return edge


def described(session: Session, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns of the relation that are read.

    Raises:
        ColumnMissing: there is no such table; the nearest one that the user can see is named.
        SchemaRefused: a column that cannot be kept.
    """
    with known(session, relation):
        found = session.columns(relation, selection)
    if any(not selection.takes(name) for name in found.names):
        raise InternalError(f"the dialect reads columns of {relation.label} that the project leaves out")
    return found


def retained(statements: Statements, kept: Kept) -> Statements:
    """The same questions to the rows that are kept alone, as to a query: no index or place of the table is assumed."""
    where = statements.condition(kept.inside(statements.column(kept.column)))
    text = f"\nSELECT * FROM {statements.relation.sql} WHERE {where}\n"
    named = statements.dialect.named(text, "retained")
    return replace(statements, relation=Relation(sql=named, label=statements.relation.label))


@contextmanager
def known(session: Session, relation: Relation) -> Iterator[None]:
    """Around a question about the relation: where there is no such table, the error names the nearest one."""
    try:
        yield
    except ColumnMissing as error:
        nearer = _with_nearest(session, relation)
        if nearer is None:
            raise
        raise nearer from error


def _with_nearest(session: Session, relation: Relation) -> ColumnMissing | None:
    """An error that names the table that may be meant; None where the table exists, or nothing can be listed."""
    try:
        tables = session.list_tables() if relation.parts else []
    except TidegateError:
        return None
    names = {join_name(parts[1:]): parts for parts in tables}
    if not tables or relation.parts in (*tables, *(parts[1:] for parts in tables)):
        return None
    if len(relation.parts) == 1:
        near = nearest(relation.label, names)
    else:
        named = nearest(relation.parts[-1], names)
        near = nearest(join_name(relation.parts), map(join_name, tables)) or (
            join_name(names[named]) if named else None
        )
    suggestion = f"did you mean {near!r}?" if near else f"this user sees {len(tables)} tables of other names"
    return ColumnMissing(f"there is no table {relation.label}, or this user may not see it; {suggestion}")
