"""The commit order and table of an event, from the `source` block of each Debezium connector.

Never orders events by the time at which they were captured, nor by log position alone where transactions overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.dialects.spark import Spark
from tidegate.spark.sql import padded

DIGITS = 20
"""As many as the greatest number of 64 bits has."""

FIELDS = (
    "change_lsn",
    "collection",
    "commit_lsn",
    "commit_scn",
    "connector",
    "db",
    "event_serial_no",
    "file",
    "lcr_position",
    "ord",
    "pos",
    "row",
    "rs_id",
    "schema",
    "scn",
    "sequence",
    "ssn",
    "table",
    "txSeq",
)
"""What is looked at in an event's `source`."""

RARE = ("lsn", "ts_ms")
"""What every event has there and few connectors are asked for."""


Field = Callable[[str], str]
"""Gives the expression of a field of an event's `source`, a text."""


def order(field: Field, operation: str, index: str) -> str:
    """The order of an event as a text; NULL where its `source` does not tell it.

    A row of a snapshot stands below every event that was streamed: the log goes on where the snapshot began, so that
    each change of the row comes after it, whatever the log's position was when the row was read.

    Args:
        field: gives the expression of one of `FIELDS` or `RARE`, a text.
        operation: Debezium's `op`.
        index: of the event in its transaction, a text; NULL where nobody counts.
    """
    own = (
        f"CASE WHEN {field('connector')} = 'postgresql' THEN {_postgresql(field)} "
        f"WHEN {field('connector')} IN ('mysql', 'mariadb') THEN {_binlog(field)} "
        f"WHEN {field('connector')} IN ('sqlserver', 'db2') THEN {_lsn(field, operation)} "
        f"WHEN {field('connector')} = 'oracle' THEN {_scn(field, operation)} "
        f"WHEN {field('connector')} = 'mongodb' THEN {_oplog(field)} END"
    )
    # A key that changed is a delete and an insert of one place in the log, in this order; that of a document of MongoDB
    # never changes, and what one of its transactions did to a document has one place, in whatever order.
    last = f"if({operation} = 'd' AND {field('connector')} <> 'mongodb', '0', '1')"
    streamed = f"if({operation} = 'r', '0', '1')"
    return joined(streamed, own, _number(f"coalesce({index}, '0')"), last)


def _number(text: str) -> str:
    # Nearly every number is a bigint, and as that it is cast much faster.
    kinds = ("bigint", "decimal(20,0)")
    return padded(f"coalesce({', '.join(f'CAST(try_cast({text} AS {kind}) AS string)' for kind in kinds)})", DIGITS)


def _postgresql(field: Field) -> str:
    """The last commit before the event, then the event itself: rows that were written together share the latter."""
    first, own = _two(field("sequence"))
    before = f"coalesce({first}, '0')"
    return joined(
        f"if({field('sequence')} IS NULL, NULL, {_number(before)})",
        _number(f"coalesce({own}, {field('lsn')})"),
    )


def _binlog(field: Field) -> str:
    file = f"regexp_extract({field('file')}, '([0-9]+)$', 1)"
    return joined(_number(file), _number(field("pos")), _number(f"coalesce({field('row')}, '0')"))


def _lsn(field: Field, operation: str) -> str:
    """Hexadecimal digits of one width; a row of a snapshot has no change."""
    change = f"if({operation} = 'r', coalesce({field('change_lsn')}, ''), {field('change_lsn')})"
    serial = _number(f"coalesce({field('event_serial_no')}, '0')")
    return joined(f"lower({field('commit_lsn')})", f"lower({change})", serial)


def _scn(field: Field, operation: str) -> str:
    """Changes of a transaction share its SCN: which of them came first, the redo record or their number tells."""
    within = f"coalesce(lower(trim({field('rs_id')})), {_number(field('txSeq'))})"
    return joined(
        _number(f"coalesce({field('commit_scn')}, if({operation} = 'r', {field('scn')}, NULL))"),
        f"coalesce({field('lcr_position')}, {_number(field('scn'))})",
        f"coalesce({within}, if({operation} = 'r' OR {field('lcr_position')} IS NOT NULL, '', NULL))",
        _number(f"coalesce({field('ssn')}, '0')"),
    )


def _oplog(field: Field) -> str:
    return joined(_number(field("ts_ms")), _number(f"coalesce({field('ord')}, '0')"))


def _two(array: str) -> tuple[str, str]:
    """The two texts of a JSON array; as Debezium writes it they are found without a parser, which takes longer."""
    ends = f"endswith({array}, '\"]')"
    both = f"startswith({array}, '[\"') AND contains({array}, '\",\"') AND {ends}"
    second = f"startswith({array}, '[null,\"') AND {ends}"
    one, two = (f"substring_index(substring_index({array}, '\"', {quotes}), '\"', -1)" for quotes in (2, 4))
    first, last = (f"nullif(get_json_object({array}, '$[{place}]'), 'null')" for place in (0, 1))
    return _case((both, one), (second, "NULL"), first), _case((both, two), (second, one), last)


def _case(first: tuple[str, str], second: tuple[str, str], last: str) -> str:
    return f"CASE WHEN {first[0]} THEN {first[1]} WHEN {second[0]} THEN {second[1]} ELSE {last} END"


def joined(*parts: str) -> str:
    """The parts with blanks between them; NULL where one of them is."""
    return "concat(" + ", ' ', ".join(parts) + ")"


def table(field: Field) -> str:
    """`database.schema.table` of an event, without what its connector does not have; `field` as of `order`."""
    return f"concat_ws('.', {field('db')}, {field('schema')}, coalesce({field('table')}, {field('collection')}))"


def is_of(name: str, table: str) -> str:
    """The condition that an event is of a table that is called by all of its names or by the last ones.

    Args:
        name: in which `*` stands for any text.
    """
    if "*" not in name:
        literal = Spark().string(name)
        return f"({table} = {literal} OR endswith({table}, concat('.', {literal})))"
    pattern = "".join(f"|{mark}" if mark in "|%_" else mark for mark in name).replace("*", "%")
    both = (f"{table} LIKE {Spark().string(each)} ESCAPE '|'" for each in (pattern, f"%.{pattern}"))
    return f"({' OR '.join(both)})"


def foreign(only: str | None) -> str:
    """Why an event of another table than that one is refused."""
    return f"it is not of table {only}, as the others are; name one in full with `table:`"


def fitting(only: str | None, stated: str | None) -> str | None:
    """The table that every event has to be of, if it is one that `table:` means; None for any that `table:` means.

    Example:
        >>> fitting("shop.public.orders", "orders"), fitting("shop.public.orders", None)
        ('shop.public.orders', 'shop.public.orders')
        >>> fitting("shop.public.orders", "sales.orders"), fitting("shop.public.orders", "public.*")
        (None, None)
    """
    return only if only and (stated is None or ("*" not in stated and is_called(stated, only))) else None


def one_table(stated: str | None, before: str | None, names: Sequence[str | None]) -> str | None:
    """The table that every event has to be of: that of earlier events, else of the newest one; None for any.

    A name without `*` stands for one table, although tables of several schemas and databases may be called so.

    Args:
        stated: `table:` of the envelope.
        names: of the messages' tables, the newest last.
    """
    return next((found for each in (before, *reversed(names)) if (found := fitting(each, stated))), None)


def is_called(name: str, table: str) -> bool:
    """The same of a table's name that is known.

    Example:
        >>> is_called("public.*", "shop.public.orders"), is_called("orders", "shop.public.reorders")
        (True, False)
    """
    return re.fullmatch(r"(.*\.)?" + ".*".join(map(re.escape, name.split("*"))), table, re.DOTALL) is not None


def connector_of(message: object) -> str | None:
    """The connector that wrote a message; None where it tells none."""
    source = _source_of(message)
    return source["connector"] if source and isinstance(source.get("connector"), str) else None


def _source_of(message: object) -> dict[str, Any] | None:
    payload = message.get("payload", message) if isinstance(message, dict) else None
    source = payload.get("source") if isinstance(payload, dict) else None
    return source if isinstance(source, dict) else None


def table_of(message: object) -> str | None:
    """The table of a message as JSON gives it; None where it tells none."""
    source = _source_of(message) or {}
    own = source.get("table") or source.get("collection")
    if not own:  # a message that an application wrote into the log
        return None
    names = (source.get("db"), source.get("schema"), own)
    return ".".join(name for name in names if isinstance(name, str))
