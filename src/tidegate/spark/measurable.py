"""Knows which queries maintenance may measure: one SELECT that reads the stream's table and nothing else."""

from __future__ import annotations

import re

from tidegate.core.policies.maintenance import PLACE
from tidegate.spark import functions

_NAME = "tidegate_measured"
# Looked for in the text itself, since Spark and sqlglot could disagree about where a text or a remark ends.
_PARTS = {
    ";": "is more than one statement",
    "${": "has a reference that Spark replaces, by a text that nobody has judged",
    "--": "has a remark, which a measured query may not have",
    "/*": "has a remark, which a measured query may not have",
}
_SCRIPT = re.compile(r"\b(using\b\s*[^\s(]|transform\b\s*\(.*\busing\b)", re.IGNORECASE | re.DOTALL)
# Words of a query before a parenthesis, beside those of an expression.
_WORDS = """
select where having join using union intersect except minus values lateral unnest cube rollup sets tablesample limit
offset exists
"""
_SYNTAX = frozenset(_WORDS.split())


def refusal(query: str, read: str) -> str | None:
    """Why no engine is asked this, whoever wrote it; None where it may be measured.

    Args:
        read: whose SQL it is, by its name in sqlglot.

    Example:
        >>> refusal("SELECT count(*) FROM {table}", "spark")
        >>> refusal("DROP TABLE {table}", "spark")
        'is no query: a measured query is one SELECT'
        >>> refusal("SELECT * FROM {table} JOIN text.`/etc/passwd`", "spark")
        'reads more than {table}'
    """
    for part, why in _PARTS.items():
        if part in query:
            return why
    if _SCRIPT.search(query):
        return "has its rows transformed by a program"
    return _of_tree(query.replace(PLACE, _NAME), read)


def _of_tree(query: str, read: str) -> str | None:
    import sqlglot  # noqa: PLC0415 - most projects state no SQL, and every command reads the project
    from sqlglot import exp  # noqa: PLC0415 - as above
    from sqlglot.errors import SqlglotError  # noqa: PLC0415 - as above

    try:
        (parsed,) = sqlglot.parse(query, read=read)
    except (SqlglotError, ValueError):
        return f"is not understood as a query of {read.capitalize()}"
    others = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.QueryTransform, exp.MultitableInserts)
    if not isinstance(parsed, (exp.Select, exp.SetOperation)) or parsed.find(*others):
        return "is no query: a measured query is one SELECT"
    known = {_NAME, *(each.alias.lower() for each in parsed.find_all(exp.CTE))}
    tables = list(parsed.find_all(exp.Table))
    plain = all(isinstance(table.this, exp.Identifier) and not table.db and not table.catalog for table in tables)
    names = {table.name.lower() for table in tables}
    if plain and names <= known:
        return None if _NAME in names else f"does not read {PLACE}"
    return f"reads more than {PLACE}" if _NAME in names else f"does not read {PLACE}"


def runs_code(query: str, read: str) -> str | None:
    """Why a project file that is not trusted may not state it; None where it calls only functions that are judged."""
    return functions.refusal(query.replace(PLACE, _NAME), read=read, syntax=_SYNTAX)
