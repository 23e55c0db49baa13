"""Reads SQLite's catalog: columns, keys and rowid.

Never reads rows of a user's table, except to count them, and to see whether a column holds what it is declared to hold.
"""

from __future__ import annotations

import re

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import CatalogSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.sqlite.types import column_of
from tidegate.errors import ColumnMissing, SchemaRefused, SourceError

VIEW = "tidegate described"
NOW = re.compile(r"CURRENT_TIMESTAMP|(?:datetime|strftime)\s*\((?![^()]*localtime)[^()]*'now'[^()]*\)?", re.IGNORECASE)
"""In UTC, as the bound is."""
SETS = re.compile(
    rf'\s*UPDATE\s+(?:"[^"]+"|\w+)\s+SET\s+(?:"([^"]+)"|(\w+))\s*=\s*(?:{NOW.pattern})\s+'
    r"WHERE\s+\w+\s*=\s*(?:NEW|OLD)\.\w+\s*;\s*END\s*;?\s*",
    re.IGNORECASE,
)
LOOKED_AT = 1_000
"""So many rows of a table tell whether its columns hold what they are declared to hold."""
ROWIDS = frozenset({"rowid", "_rowid_", "oid"})


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: declarations that say too little.
    """
    return _mapped(session, relation, selection).schema()


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    natives = [(name, (declared, nullable)) for name, declared, nullable in _describe(session, relation)]
    return described(relation.label, natives, selection, column_of)


def _describe(session: CatalogSession, relation: Relation) -> list[tuple[str, str, bool]]:
    """Name, declaration and whether NULL is allowed."""
    if not relation.parts:
        view = session.dialect.quote(VIEW)
        session.rows(f"CREATE TEMP VIEW {view} AS SELECT * FROM {relation.sql}")
        try:
            return [(row[1], row[2], True) for row in _info(session, (VIEW,))]
        finally:
            session.rows(f"DROP VIEW temp.{view}")
    found = _info(session, relation.parts)
    if not found:
        raise ColumnMissing(f"connection {session.name!r}: there is no table {relation.label}", table=relation.label)
    alias = rowid_alias(session, relation)
    return [(row[1], row[2], not row[3] and row[1] != alias) for row in found]


def _info(session: CatalogSession, parts: tuple[str, ...]) -> list[Row]:
    """cid, name, type, notnull, default, place in the primary key."""
    return session.rows(f"SELECT * FROM pragma_table_xinfo({_arguments(session, parts)}) WHERE hidden <> 1")


def default(session: CatalogSession, relation: Relation, column: str) -> list[str]:
    """The expression that fills a column of a table, if there is one."""
    found = _info(session, relation.parts) if relation.parts else []
    return [str(row[4]) for row in found if row[1] == column and row[4] is not None]


def _arguments(session: CatalogSession, parts: tuple[str, ...]) -> str:
    string = session.dialect.string
    return f"{string(parts[-1])}, {string(parts[0])}" if len(parts) > 1 else string(parts[-1])


def _created(session: CatalogSession, relation: Relation) -> str:
    schema = session.dialect.quote(relation.parts[0] if len(relation.parts) > 1 else "main")
    name = session.dialect.string(relation.parts[-1])
    rows = session.rows(f"SELECT sql FROM {schema}.sqlite_schema WHERE type = 'table' AND name = {name} COLLATE NOCASE")
    return str(rows[0][0]) if rows else ""


def rowid_alias(session: CatalogSession, relation: Relation) -> str | None:
    """The column that is the rowid itself: an INTEGER PRIMARY KEY without an index of its own, which one DESC has."""
    keys = [row for row in _info(session, relation.parts) if row[5]]
    if len(keys) != 1 or keys[0][2].upper() != "INTEGER" or not has_rowid(session, relation):
        return None
    indexes = session.rows(f"SELECT origin FROM pragma_index_list({_arguments(session, relation.parts)})")
    return None if ("pk",) in indexes else str(keys[0][1])


def grows(session: CatalogSession, relation: Relation, column: str) -> bool:
    """Whether a number of the column is never given twice."""
    # The word cannot stand in a column's name by itself without quotes, nor in any other clause.
    words = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\[[^\]]*\]", " ", _created(session, relation))
    return (
        rowid_alias(session, relation) == column and re.search(r"\bAUTOINCREMENT\b", words, re.IGNORECASE) is not None
    )


def generated(session: CatalogSession, relation: Relation) -> str:
    """The statement for the last number that an AUTOINCREMENT table has given to a row; no row if it never had one."""
    schema = session.dialect.quote(relation.parts[0] if len(relation.parts) > 1 else "main")
    name = session.dialect.string(relation.parts[-1])
    return f"SELECT seq FROM {schema}.sqlite_sequence WHERE name = {name} COLLATE NOCASE"


def has_rowid(session: CatalogSession, relation: Relation) -> bool:
    """Whether rows have a number that orders them."""
    if not relation.parts or not _created(session, relation):
        return False
    if any(row[1].lower() in ROWIDS for row in _info(session, relation.parts)):
        return False
    try:
        session.rows(f"SELECT rowid FROM {relation.sql} LIMIT 0")
    except (ColumnMissing, SourceError):
        return False
    return True


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of the primary key and of each unique index that covers every row and no NULL."""
    if not relation.parts:
        return ()
    nullable = {name for name, _, nullable in _describe(session, relation) if nullable}
    found = []
    alias = rowid_alias(session, relation)
    if alias is not None:
        found.append(frozenset({alias}))
    for _, name, unique, _, partial in session.rows(
        f"SELECT * FROM pragma_index_list({_arguments(session, relation.parts)})"
    ):
        if unique and not partial:
            names = _indexed(session, relation, name)
            if None not in names and not nullable & set(names):
                found.append(frozenset(str(name) for name in names))
    return tuple(found)


def _indexed(session: CatalogSession, relation: Relation, index: str) -> tuple[str | None, ...]:
    parts = (*relation.parts[:-1], index)
    return tuple(row[2] for row in session.rows(f"SELECT * FROM pragma_index_info({_arguments(session, parts)})"))


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """The tables of the file."""
    rows = session.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
    )
    return [("main", name) for (name,) in rows]


def views(session: CatalogSession) -> list[tuple[str, str]]:
    """The views of the file."""
    return [("main", name) for (name,) in session.rows("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY 1")]


def clocked(session: CatalogSession, relation: Relation) -> dict[str, str]:
    """Columns that triggers set to the time at every insert and every update.

    A default, which an insert may overrule, a trigger with a condition or of some columns alone, one that does anything
    else, and a second one of the same event prove nothing.
    """
    table = session.dialect.string(relation.parts[-1])
    rows = session.rows(
        f"SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = {table} COLLATE NOCASE"
    )
    proven: dict[str, dict[str, str]] = {"INSERT": {}, "UPDATE": {}}
    for trigger, sql in rows:
        head, body = re.split(r"\bBEGIN\b", re.sub(r"--[^\n]*", " ", sql), maxsplit=1, flags=re.IGNORECASE)
        event = re.search(r"\bAFTER\s+(INSERT|UPDATE)\s+ON\b", head, re.IGNORECASE)
        only = SETS.fullmatch(body)
        if event is None or only is None or re.search(r"\bWHEN\b", head, re.IGNORECASE):
            return {}
        proven[event[1].upper()][only[1] or only[2]] = trigger
    if len(rows) > len(proven):
        return {}
    return {name: f"trigger {trigger}" for name, trigger in proven["UPDATE"].items() if name in proven["INSERT"]}


def primary_keys(session: CatalogSession) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns of every primary key in their order, by schema and table."""
    rows = session.rows(
        "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c "
        "WHERE t.type = 'table' AND c.pk > 0 ORDER BY t.name, c.pk"
    )
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for table, column in rows:
        found["main", table] = (*found.get(("main", table), ()), column)
    return found


def _fits(session: CatalogSession, relation: Relation, column: Column) -> bool:
    """Whether the first rows hold what the column is to hold, which no declaration says."""
    asked = session.dialect.read(column).sql
    rows = f"SELECT {session.dialect.quote(column.name)} FROM {relation.sql} LIMIT {LOOKED_AT}"
    try:
        session.rows(f"SELECT count({asked}) FROM ({rows})")
    except SchemaRefused:
        return False
    return True


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    natives = {name: (declared, nullable) for name, declared, nullable in _describe(session, relation)}
    found = described(relation.label, [*natives.items()], ColumnSelection(), column_of)
    fitting = tuple(column for column in found.columns if _fits(session, relation, column))
    others = {
        **found.unsupported,
        **{each.name: f"{each.label}, which not every value is" for each in found.columns if each not in fitting},
    }
    texts = [column for name in others if isinstance(column := column_of(name, natives[name], "text"), Column)]
    keys = sorted((row[5], row[1]) for row in _info(session, relation.parts) if row[5])
    listed = session.rows(f"SELECT * FROM pragma_index_list({_arguments(session, relation.parts)})")
    indexes = [_indexed(session, relation, row[1]) for row in listed if row[3] != "pk"]
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=fitting),
        unsupported=others,
        as_text=[column.name for column in texts if _fits(session, relation, column)],
        primary_key=tuple(name for _, name in keys),
        indexes=tuple(tuple(name for name in names if name is not None) for names in indexes),
        rows=session.estimate(relation, "1 = 1"),
        clocked=clocked(session, relation),
    )
