r"""Writes SQL as Oracle's JDBC driver has to get it: it takes a `?` for a parameter, and `{\?\}` for the quantifier.

Only a pattern of `MATCH_RECOGNIZE` has one outside literals, names and comments, which the driver leaves alone.
"""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"""
    (?<![\w$\#])n?q'(?:\[.*?\]|\{.*?\}|\(.*?\)|<.*?>|(?P<end>[^\s\[{(<]).*?(?P=end))'
    | '[^']*'
    | "[^"]*"
    | --[^\r\n]*
    | /\*.*?\*/
    | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def escaped(sql: str) -> str:
    r"""The same statement with its quantifiers as the driver writes them.

    Example:
        >>> escaped("SELECT '?' FROM t MATCH_RECOGNIZE (PATTERN (a? b*?) DEFINE a AS x > 1)")
        "SELECT '?' FROM t MATCH_RECOGNIZE (PATTERN (a{\\?\\} b*{\\?\\}) DEFINE a AS x > 1)"
    """
    return _PARTS.sub(lambda found: r"{\?\}" if found["mark"] else found[0], sql)
