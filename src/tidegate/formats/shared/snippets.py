"""What the snippets of both formats have in common."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping

from tidegate.core.ids import Target


def python_name(table: str) -> str:
    """A name for the table that Python and SQL take without quotes.

    Example:
        >>> python_name("orders"), python_name("2024 sales"), python_name("import")
        ('orders', 't_2024_sales', 't_import')
    """
    name = re.sub(r"\W", "_", table, flags=re.ASCII)
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return name if plain and name not in ("table", "rows", "catalog") else f"t_{name}"


def options(values: Mapping[str, str]) -> str:
    """A mapping as Python writes it, an entry a line."""
    entries = "".join(f"\n    {name!r}: {value!r}," for name, value in values.items())
    return f"{{{entries}\n}}"


def trino(target: Target, location: str | None) -> str:
    """Statements for a catalog of Trino that has the lake's name.

    Args:
        location: of a table that the catalog has to be told of once; None for one that it knows.
    """
    schema = ".".join(target.namespace)
    called = ".".join(_quoted(part) for part in (target.lake, schema, target.table))
    known = ""
    if location is not None:
        values = {"schema_name": schema, "table_name": target.table, "table_location": location}
        arguments = ", ".join(f"{name} => {_text(value)}" for name, value in values.items())
        known = f"CALL {_quoted(target.lake)}.system.register_table({arguments});\n"
    return f"{known}SELECT * FROM {called} LIMIT 10;"


def _quoted(name: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
