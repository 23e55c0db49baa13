"""Reads PostgreSQL's catalog: columns, keys, size and server identity.

Never reads rows of a user's table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import CatalogSession, Relation, TableFacts
from tidegate.core.schema import Column, ColumnIds, Schema
from tidegate.dialects.postgresql.types import DESCRIBE, Native, column_of
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.errors import ColumnMissing

TABLE_KINDS = ("r", "p")
BOUNDS = re.compile(r"FOR VALUES FROM \((.+)\) TO \((.+)\)")
NOW = re.compile(
    r"(?:now\(\)|(?:transaction|statement|clock)_timestamp\(\)|CURRENT_TIMESTAMP|LOCALTIMESTAMP)(?:\(\d\))?",
    re.IGNORECASE,
)
ASSIGNED = re.compile(rf'\bNEW\s*\.\s*(?:"([^"]+)"|(\w+))\s*:?=\s*{NOW.pattern}\s*;', re.IGNORECASE)
SETS = re.compile(
    rf'\s*BEGIN\s+((?:NEW\s*\.\s*(?:"[^"]+"|\w+)\s*:?=\s*{NOW.pattern}\s*;\s*)+)RETURN\s+NEW\s*;\s*END\s*;?\s*',
    re.IGNORECASE,
)
ENDLESS = {"MINVALUE", "MAXVALUE", "'-infinity'", "'infinity'"}
SOME_ROWS = 20
UNKNOWN_ROW_BYTES = 100
HIDDEN_SCHEMAS = "n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'"


class DescribingSession(CatalogSession, Protocol):
    """A session of PostgreSQL."""

    @property
    def user(self) -> str:
        """Its login."""

    def describe(self, sql: str) -> list[tuple[str, int, int]]:
        """Name, type's oid and modifier of each column of a statement."""


def columns(session: DescribingSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        SchemaRefused: types that cannot be kept, or two names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    attributes = _attributes(session, relation)
    found = _mapped(session, relation, selection, attributes).schema()
    if not relation.parts:
        return found
    oid = _oid(session, relation)
    comments = session.rows(
        f"SELECT attname::text, col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = {oid} "
        "AND attnum > 0 AND NOT attisdropped AND col_description(attrelid, attnum) IS NOT NULL"
    )
    ((comment, number),) = session.rows(f"SELECT coalesce(obj_description({oid}, 'pg_class'), ''), {oid}::oid::text")
    ids = ColumnIds(relation=number, columns=attributes[1], takes=selection.takes)
    return replace(found.commented(comment, dict(comments)), ids=ids)


Attributes = tuple[frozenset[str], Mapping[str, str]]
"""The columns that are never NULL, and each column's number, which it keeps when its name changes."""


def _mapped(
    session: DescribingSession, relation: Relation, selection: ColumnSelection, attributes: Attributes
) -> RelationColumns:
    rows = session.describe(f"SELECT * FROM {relation.sql} LIMIT 0")
    natives = _natives(session, {kind for _, kind, _ in rows})
    required, numbers = attributes

    def column(name: str, native: Native, override: str | None) -> Column | str:
        found = column_of(name, native, nullable=name not in required, override=override)
        return replace(found, ident=numbers.get(name)) if isinstance(found, Column) else found

    described_by = [
        (name, natives[kind] if modifier < 0 else replace(natives[kind], modifier=modifier))
        for name, kind, modifier in rows
    ]
    return described(relation.label, described_by, selection, column)


def _natives(session: DescribingSession, oids: set[int]) -> dict[int, Native]:
    if not oids:
        return {}
    rows = session.rows(DESCRIBE.format(oids=",".join(map(str, sorted(oids)))))
    return {
        origin: Native(
            modifier=modifier, oid=oid, name=name, category=category, built_in=built_in, element=element, called=called
        )
        for origin, modifier, oid, name, category, built_in, element, called in rows
    }


def _attributes(session: DescribingSession, relation: Relation) -> Attributes:
    if not relation.parts:
        return frozenset(), {}
    rows = session.rows(
        f"SELECT attname::text, attnum::text, attnotnull FROM pg_attribute WHERE attrelid = {_oid(session, relation)} "
        "AND attnum > 0 AND NOT attisdropped"
    )
    return frozenset(name for name, _, required in rows if required), {name: number for name, number, _ in rows}


def _oid(session: DescribingSession, relation: Relation) -> str:
    return f"to_regclass({session.dialect.string(relation.sql)})"


def oid_of(session: DescribingSession, relation: Relation) -> int:
    """The table's oid. Raises ColumnMissing: there is no such table."""
    ((oid,),) = session.rows(f"SELECT {_oid(session, relation)}::oid::bigint")
    if oid is None:
        raise ColumnMissing(f"connection {session.name!r}: there is no table {relation.label}", table=relation.label)
    return int(oid)


def is_table(session: DescribingSession, relation: Relation) -> bool:
    """Whether it is a table, partitioned or not, rather than a view."""
    rows = session.rows(f"SELECT relkind::text FROM pg_class WHERE oid = {oid_of(session, relation)}")
    return rows[0][0] in TABLE_KINDS


def is_plain(session: DescribingSession, relation: Relation) -> bool:
    """Whether every row is in this very heap: no partitions, no heirs."""
    rows = session.rows(
        f"SELECT relkind = 'r' AND NOT relhassubclass FROM pg_class WHERE oid = {oid_of(session, relation)}"
    )
    return bool(rows[0][0])


def replaced(session: DescribingSession) -> tuple[str, ...]:
    """What this transaction has locked, and others have rewritten or made since its snapshot.

    TRUNCATE and ALTER write a new file, of whose rows an older snapshot sees none. What the transaction reads of
    `pg_class` is as old as its snapshot; what `pg_relation_filenode` and `regclass` say is of now.
    """
    rows = session.rows(
        "SELECT DISTINCT l.relation::regclass::text FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation "
        "WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND (c.oid IS NULL "
        # Zero is what has no file, and catalogs whose file is named elsewhere.
        "OR c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid)) ORDER BY 1"
    )
    return tuple(name for (name,) in rows)


def pages(session: DescribingSession, relation: Relation) -> int:
    oid = oid_of(session, relation)
    ((found,),) = session.rows(f"SELECT pg_relation_size({oid}) / current_setting('block_size')::bigint")
    return int(found)


def schema_of(session: DescribingSession, relation: Relation) -> str | None:
    """The schema in which a name is found."""
    rows = session.rows(
        "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.oid = {_oid(session, relation)}"
    )
    return str(rows[0][0]) if rows else None


def identity(session: DescribingSession, relation: Relation) -> str:
    """System identifier, timeline, database and the table's oid."""
    ((system, timeline, database),) = session.rows(
        "SELECT (SELECT system_identifier FROM pg_control_system())::text, "
        "CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint()) "
        "ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END, current_database()"
    )
    table = f":{oid_of(session, relation)}" if relation.parts else ""
    return f"postgresql:{system}:{timeline}:{database}{table}"


def clock(session: DescribingSession) -> int:
    """The position in the write-ahead log as a number."""
    ((found,),) = session.rows(
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END "
        "- '0/0'::pg_lsn)::text"
    )
    return int(found)


# Rows of a child are rows of the table, and of its indexes none has them.
NO_CHILDREN = "NOT (c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))"


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIndex:
    """A valid unique index that covers every row and no NULL.

    Args:
        immediate: no two rows ever have the same values; else (`DEFERRABLE`) only none that are committed have.
        mark: another one after it was dropped and recreated. That of a constraint stays when its index is rebuilt.
    """

    columns: frozenset[str]
    immediate: bool
    mark: str


def unique_indexes(session: DescribingSession, relation: Relation) -> tuple[UniqueIndex, ...]:
    if not relation.parts:
        return ()
    rows = session.rows(
        "SELECT array_agg(a.attname::text), bool_and(a.attnotnull), bool_and(i.indimmediate), "
        "coalesce('constraint ' || max(o.oid::bigint)::text, 'index ' || i.indexrelid::text) "
        "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "LEFT JOIN pg_constraint o ON o.conindid = i.indexrelid AND o.contype IN ('p', 'u') "
        "CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) "
        "LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {oid_of(session, relation)} AND i.indisunique AND i.indisvalid AND i.indpred IS NULL "
        "AND i.indexprs IS NULL AND k.place <= i.indnkeyatts "
        f"AND {NO_CHILDREN} GROUP BY i.indexrelid"
    )
    return tuple(
        UniqueIndex(columns=frozenset(names), immediate=at_once, mark=mark)
        for names, required, at_once, mark in rows
        if required
    )


def inheriting(session: DescribingSession, relation: Relation) -> list[str]:
    """The tables that inherit from a table, quoted; a partition is a part of its table and none of them."""
    rows = session.rows(
        "SELECT i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent "
        f"WHERE c.oid = {oid_of(session, relation)} AND c.relkind = 'r' ORDER BY 1"
    )
    return [name for (name,) in rows]


def _kept_in(oid: int) -> str:
    """The table itself, or its partitions; an ordinary table has no tree of them."""
    tree = f"SELECT {oid} UNION SELECT relid FROM pg_partition_tree({oid})"
    return f"pg_class c WHERE c.relkind <> 'p' AND c.oid IN ({tree})"


def row_bytes(session: DescribingSession, relation: Relation) -> int:
    """From the table's size and the planner's row count; a guess for what has neither.

    What is stored out of line is compressed there, so that some rows are looked at, too.
    """
    if not relation.parts:
        return UNKNOWN_ROW_BYTES
    oid = oid_of(session, relation)
    ((size, rows, out_of_line, readable),) = session.rows(
        "SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint, coalesce(sum(c.reltuples), 0)::bigint, "
        f"bool_or(pg_relation_size(nullif(c.reltoastrelid, 0)) > 0), has_table_privilege({oid}, 'SELECT') "
        f"FROM {_kept_in(oid)}"
    )
    stored = max(1, size // rows) if rows > 0 and size else UNKNOWN_ROW_BYTES
    if not (out_of_line and readable):
        return stored
    some = f"(SELECT * FROM {relation.sql} LIMIT {SOME_ROWS})"
    ((shown,),) = session.rows(f"SELECT coalesce(avg(octet_length(s::text)), 0)::bigint FROM {some} AS s")
    return max(stored, int(shown))


def ranges(session: DescribingSession, relation: Relation) -> tuple[str, tuple[str, ...]] | None:
    """The column by whose ranges the table is partitioned, and each range's finite bounds as expressions of its type.

    None for what is not partitioned, or by other than ranges of one column. Of partitions within partitions the
    outermost count.
    """
    if not relation.parts:
        return None
    oid = oid_of(session, relation)
    found = session.rows(
        "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_partitioned_table p "
        "JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] "
        f"WHERE p.partrelid = {oid} AND p.partstrat = 'r' AND p.partnatts = 1"
    )
    if not found:
        return None
    ((column, kind),) = found
    bounds = session.rows(
        "SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        f"WHERE i.inhparent = {oid}"
    )
    ends = {end for (text,) in bounds for found in BOUNDS.finditer(text) for end in found.groups()}
    return column, tuple(f"CAST({end} AS {kind})" for end in sorted(ends - ENDLESS))


def list_tables(ask: Callable[[str], list[Any]]) -> list[tuple[str, str]]:
    """Tables that the user may see, without partitions of listed ones."""
    rows = ask(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition AND {HIDDEN_SCHEMAS} "
        "AND c.relpersistence <> 't' ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows]


def views(session: DescribingSession) -> list[tuple[str, str]]:
    """Views and materialized views that the user may see."""
    rows = session.rows(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.relkind IN ('v', 'm') AND {HIDDEN_SCHEMAS} AND c.relpersistence <> 't' ORDER BY 1, 2"
    )
    return [(schema, name) for schema, name in rows]


def clocked(session: DescribingSession, oid: int) -> dict[str, str]:
    """Columns with a time zone that one trigger sets to the time at every insert and every update.

    Everything else proves nothing: a default, which an insert may overrule; a time without zone, which depends on the
    session's; a trigger with a condition, of some columns alone, or with a body that does more than assign; and a
    second trigger, which may assign again.
    """
    triggers = session.rows(
        "SELECT t.tgname::text, p.prosrc, encode(t.tgargs, 'escape'), t.tgtype & 20 = 20 AND t.tgenabled IN ('O', 'A') "
        "AND t.tgqual IS NULL AND cardinality(t.tgattr::smallint[]) = 0 "
        "FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        f"WHERE t.tgrelid = {oid} AND NOT t.tgisinternal AND t.tgtype & 3 = 3"
    )
    if len(triggers) != 1 or not triggers[0][3]:
        return {}
    trigger, body, arguments, _ = triggers[0]
    zoned = session.rows(
        f"SELECT attname::text FROM pg_attribute WHERE attrelid = {oid} AND atttypid = 'timestamptz'::regtype"
    )
    names = {name for (name,) in zoned}.intersection(_set_to_now(body, arguments))
    return dict.fromkeys(names, f"trigger {trigger}")


def _set_to_now(body: str, arguments: str) -> list[str]:
    """The columns that a trigger's function sets to the time; none where it does anything else."""
    if body.strip() == "moddatetime":  # of the extension of that name
        return [arguments.partition("\\000")[0]]
    plain = re.sub(r"--[^\n]*|/\*.*?\*/", " ", body, flags=re.DOTALL)
    found = SETS.fullmatch(plain)
    return [quoted or unquoted.lower() for quoted, unquoted in ASSIGNED.findall(found[1])] if found else []


def primary_keys(session: DescribingSession) -> dict[tuple[str, str], tuple[str, ...]]:
    rows = session.rows(
        "SELECT n.nspname::text, c.relname::text, array_agg(a.attname::text ORDER BY k.place) FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indisprimary AND i.indisvalid AND k.place <= i.indnkeyatts AND {HIDDEN_SCHEMAS} GROUP BY 1, 2"
    )
    return {(schema, table): tuple(names) for schema, table, names in rows}


def facts(session: DescribingSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection(), _attributes(session, relation))
    oid = oid_of(session, relation)
    indexes = session.rows(
        "SELECT i.indisprimary, array_agg(a.attname::text ORDER BY k.place) FROM pg_index i "
        "CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {oid} AND i.indisvalid AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, i.indisprimary"
    )
    ((rows,),) = session.rows(f"SELECT greatest(sum(c.reltuples), 0)::bigint FROM {_kept_in(oid)}")
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=next((tuple(names) for primary, names in indexes if primary), ()),
        indexes=tuple(tuple(names) for primary, names in indexes if not primary),
        rows=int(rows or 0),
        clocked=clocked(session, oid),
    )
