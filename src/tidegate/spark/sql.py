"""Quotes names and option values in Spark statements.

A name never becomes syntax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegate.core.ids import Target

_PATTERN = re.compile(r"[\\*?\[\]{}]")
_TIMESTAMP = re.compile(r"(?:^|(?<=[<:,]))timestamp(?=[,>]|$)")


def quote(name: str) -> str:
    """One identifier, whatever it holds.

    Example:
        >>> quote("a`b.c")
        '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal_path(path: str) -> str:
    r"""A path that Spark reads as it is: what it would take for a pattern is escaped; other characters it leaves alone.

    Example:
        >>> literal_path("file:///my shop/{1}*")
        'file:///my shop/\\{1\\}\\*'
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def names(columns: Sequence[str], prefix: str = "") -> str:
    """Quoted columns, joined by commas; each after `prefix` and a dot if one is given."""
    return ", ".join(f"{prefix}.{quote(name)}" if prefix else quote(name) for name in columns)


def table(target: Target, branch: str | None = None) -> str:
    """A table, or the name under which a branch of it is written."""
    parts = [*target.parts, f"branch_{branch}"] if branch else list(target.parts)
    return ".".join(quote(part) for part in parts)


def namespaces(target: Target) -> tuple[str, ...]:
    """The namespace of a table after those it lies in, each with its lake."""
    return tuple(
        ".".join(quote(part) for part in (target.lake, *target.namespace[:depth]))
        for depth in range(1, len(target.namespace) + 1)
    )


def string(text: str) -> str:
    r"""A string literal where the grammar takes nothing else: locations, properties, arguments of procedures.

    It holds under the settings that `Sessions` gives a load's session: variables are off.

    Example:
        >>> print(string("it's"))
        'it\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def padded(digits: str, width: int) -> str:
    """The expression of a text of digits with zeros before it, so that texts sort as their numbers do.

    They are put there as bytes: to pad a text Spark counts its characters, which takes ten times as long.
    """
    return f"CAST(lpad(CAST({digits} AS binary), {width}, X'{'30' * width}') AS string)"


def type_name(kind: str) -> str:
    """A type as `dtypes` tells it, in SQL that means it in every session: `timestamp` alone may be one without zone.

    Example:
        >>> type_name("timestamp"), type_name("struct<timestamp:array<timestamp>,at:timestamp_ntz>")
        ('timestamp_ltz', 'struct<timestamp:array<timestamp_ltz>,at:timestamp_ntz>')
    """
    return _TIMESTAMP.sub("timestamp_ltz", kind)
