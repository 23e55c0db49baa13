"""Writes SQL as PostgreSQL's JDBC driver has to get it: it takes a `?` for a parameter, and `??` for the operator.

PostgreSQL has `?`, `?|` and `?&` of jsonb, and operators of extensions. Within literals, names and comments the driver
leaves the character alone, and so it is left alone here.
"""

from __future__ import annotations

import re

# In the order in which they are tried; a comment within a comment is followed by `_end`.
_PARTS = re.compile(
    r"""
    (?<![\w$])[eE]'(?:[^'\\]|''|\\.)*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag)
    | --[^\r\n]*
    | (?P<comment>/\*)
    | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGES = re.compile(r"/\*|\*/")


def escaped(sql: str) -> str:
    """The same statement with its operators as the driver writes them.

    Example:
        >>> escaped("SELECT '?' FROM d WHERE doc ? 'a' AND doc ?| array['b']")
        "SELECT '?' FROM d WHERE doc ?? 'a' AND doc ??| array['b']"
    """
    parts, done, at = [], 0, 0
    while found := _PARTS.search(sql, at):
        at = found.end()
        if found["comment"]:
            at = _end(sql, at)
        elif found["mark"]:
            parts += [sql[done:at], "?"]
            done = at
    return "".join([*parts, sql[done:]])


def _end(sql: str, at: int) -> int:
    """Where a comment ends that has begun before."""
    depth = 1
    while depth and (edge := _EDGES.search(sql, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at if not depth else len(sql)
