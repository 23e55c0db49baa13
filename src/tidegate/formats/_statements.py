"""Decides the parts of statements that every table format writes alike: a merge, its bounds, a folder's name.

Called by the formats; gives SQL text only. Must never write a name that is not quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidegate.core.plan import LoadPlan, Prune
from tidegate.core.schema import Schema
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, InternalError
from tidegate.spark import sql

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def merge(  # noqa: PLR0913 - what a merge is made of
    into: str, view: str, plan: LoadPlan, prune: Sequence[Prune], *, skip_equal: bool, gone: str | None = None
) -> str:
    """The statement that updates rows of a known key, inserts the others and deletes those that are `gone`.

    Raises:
        InternalError: the plan has no key.
    """
    key = plan.key
    if not key:
        raise InternalError("a merge without a key")
    others = [name for name in plan.columns.names if name not in key]
    on = [f"t.{sql.quote(name)} = s.{sql.quote(name)}" for name in key] + [bound(each, "t.") for each in prune]
    text = f"MERGE INTO {into} t USING {sql.quote(view)} s ON {' AND '.join(on)}"
    if gone:
        text += f" WHEN MATCHED AND s.{sql.quote(gone)} THEN DELETE"
    if others:
        equal = " AND ".join(f"t.{sql.quote(name)} <=> s.{sql.quote(name)}" for name in others)
        assigned = ", ".join(f"t.{sql.quote(name)} = s.{sql.quote(name)}" for name in others)
        text += f" WHEN MATCHED{f' AND NOT ({equal})' if skip_equal else ''} THEN UPDATE SET {assigned}"
    columns, new = plan.columns.names, f" AND NOT s.{sql.quote(gone)}" if gone else ""
    return f"{text} WHEN NOT MATCHED{new} THEN INSERT ({sql.names(columns)}) VALUES ({sql.names(columns, 's')})"


def bound(prune: Prune, prefix: str = "") -> str:
    """The predicate of a bound, in literals that a format prunes files by."""
    dialect = Spark()
    column = f"{prefix}{sql.quote(prune.column)}"
    if prune.values:
        return f"{column} IN ({', '.join(dialect.literal(prune.type, value) for value in prune.values)})"
    low, high = dialect.literal(prune.type, prune.low), dialect.literal(prune.type, prune.high)
    return f"{column} >= {low} AND {column} <= {high}"


def known(name: str, schema: Schema, where: str) -> str:
    """The column's name.

    Args:
        where: the key of `layout:` that names it.

    Raises:
        ConfigError: the table has no such column.
    """
    if schema.find(name) is None:
        raise ConfigError(f"layout: {where} names {name!r}, which is not a column of the table", column=name)
    return name


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
