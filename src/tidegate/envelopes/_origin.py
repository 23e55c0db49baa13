"""The commit order and table of an event, from the `source` block of each Debezium connector.

Never orders events by the time at which they were captured, nor by log position alone where transactions overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
)
"""What is looked at in an event's `source`."""

RARE = ("lsn", "ts_ms")
"""What every event has there and few connectors are asked for."""


def order(field: Callable[[str], str], operation: str, index: str) -> str:
    """The order of an event as a text; NULL where its `source` does not tell it.

    A row of a snapshot stands below every event that was streamed: the log goes on where the snapshot began, so that
    each change of the row comes after it, whatever the log's position was when the row was read.

    Args:
        field: gives the expression of one of `FIELDS` or `RARE`, a text.
        operation: Debezium's `op`.
        index: of the event in its transaction, a text; NULL where nobody counts.
    """

    def number(text: str) -> str:
        # Nearly every number is a bigint, and as that it is cast much faster.
        kinds = ("bigint", "decimal(20,0)")
        return padded(f"coalesce({', '.join(f'CAST(try_cast({text} AS {kind}) AS string)' for kind in kinds)})", DIGITS)

    # The last commit before the event, then the event itself: rows that were written together share the latter.
    first, own = _two(field("sequence"))
    before = f"coalesce({first}, '0')"
    postgresql = joined(
        f"if({field('sequence')} IS NULL, NULL, {number(before)})",
        number(f"coalesce({own}, {field('lsn')})"),
    )
    file = f"regexp_extract({field('file')}, '([0-9]+)$', 1)"
    binlog = joined(number(file), number(field("pos")), number(f"coalesce({field('row')}, '0')"))
    # Hexadecimal digits of one width; a row of a snapshot has no change.
    change = f"if({operation} = 'r', coalesce({field('change_lsn')}, ''), {field('change_lsn')})"
    lsn = joined(
        f"lower({field('commit_lsn')})", f"lower({change})", number(f"coalesce({field('event_serial_no')}, '0')")
    )
    scn = joined(
        number(f"coalesce({field('commit_scn')}, if({operation} = 'r', {field('scn')}, NULL))"),
        f"coalesce({field('lcr_position')}, {number(field('scn'))})",
        f"coalesce(trim({field('rs_id')}), '')",
        number(f"coalesce({field('ssn')}, '0')"),
    )
    oplog = joined(number(field("ts_ms")), number(f"coalesce({field('ord')}, '0')"))
    own = (
        f"CASE WHEN {field('connector')} = 'postgresql' THEN {postgresql} "
        f"WHEN {field('connector')} IN ('mysql', 'mariadb') THEN {binlog} "
        f"WHEN {field('connector')} IN ('sqlserver', 'db2') THEN {lsn} "
        f"WHEN {field('connector')} = 'oracle' THEN {scn} WHEN {field('connector')} = 'mongodb' THEN {oplog} END"
    )
    # A key that changed is a delete and an insert of one place in the log, in this order.
    last = f"if({operation} = 'd', '0', '1')"
    streamed = f"if({operation} = 'r', '0', '1')"
    return joined(streamed, own, number(f"coalesce({index}, '0')"), last)


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


def table(field: Callable[[str], str]) -> str:
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


def is_called(name: str, table: str) -> bool:
    """The same of a table's name that is known.

    Example:
        >>> is_called("public.*", "shop.public.orders"), is_called("orders", "shop.public.reorders")
        (True, False)
    """
    return re.fullmatch(r"(.*\.)?" + ".*".join(map(re.escape, name.split("*"))), table, re.DOTALL) is not None


def table_of(message: object) -> str | None:
    """The same of a message as JSON gives it; None where it tells none."""
    payload = message.get("payload", message) if isinstance(message, dict) else None
    source = payload.get("source") if isinstance(payload, dict) else None
    if not isinstance(source, dict):
        return None
    names = (source.get("db"), source.get("schema"), source.get("table") or source.get("collection"))
    return ".".join(name for name in names if isinstance(name, str))
