"""Parses `table:` and `query:` of a database source.

A query must be exactly one SELECT.
"""

from __future__ import annotations

from tidegate.core.ports.dialect import Connectable, Dialect, Relation
from tidegate.errors import ConfigError

QUOTES = frozenset('"`')


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a name: `schema.table`; a part in double quotes or backticks may hold dots.

    Raises:
        ConfigError: an empty part, an open quote, or something behind a closing quote.

    Example:
        >>> split_name('public."odd.name"')
        ('public', 'odd.name')
    """
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _quoted(rest, text) if rest[:1] in QUOTES else _unquoted(rest)
        if not part:
            raise ConfigError(f"{text!r} is not a table name", hint='Use schema.table, or schema."odd.name".')
        parts.append(part)
        if not rest:
            return tuple(parts)
        if rest[0] != ".":
            raise ConfigError(f"{text!r} is not a table name", hint='Use schema.table, or schema."odd.name".')
        rest = rest[1:]


def _unquoted(text: str) -> tuple[str, str]:
    part, dot, rest = text.partition(".")
    return part, dot + rest


def _quoted(text: str, whole: str) -> tuple[str, str]:
    quote, part, place = text[0], "", 1
    while place < len(text):
        if text[place] == quote:
            if text[place + 1 : place + 2] != quote:
                return part, text[place + 1 :]
            place += 1
        part += text[place]
        place += 1
    raise ConfigError(f"{whole!r} has an unclosed quote")


def of_table(dialect: Dialect, name: str) -> Relation:
    """A table or a view.

    Raises:
        ConfigError: more than schema and table.
    """
    parts = split_name(name)
    if len(parts) > 2:
        raise ConfigError(f"{name!r} has more parts than schema and table", hint="Quote a part that contains a dot.")
    return dialect.relation(*parts)


def of_query(dialect: Connectable, text: str) -> Relation:
    """A query, as the user wrote it.

    Raises:
        ConfigError: it is not exactly one SELECT, or it writes or locks.
    """
    import sqlglot  # noqa: PLC0415 - a quarter of a second, and most streams read tables
    from sqlglot import exp  # noqa: PLC0415

    hint = "Use one SELECT; put syntax that the parser does not know in a view."
    try:
        words = sqlglot.tokenize(text, read=dialect.sqlglot)
        while words and words[-1].token_type == sqlglot.TokenType.SEMICOLON:
            words.pop()
        text = text[: words[-1].end + 1] if words else ""  # what follows is a comment
        statements = [statement for statement in sqlglot.parse(text, read=dialect.sqlglot) if statement is not None]
    except sqlglot.errors.SqlglotError as error:
        raise ConfigError("query: cannot be parsed", hint=hint) from error
    writes = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Command, exp.Into, exp.Lock)
    if len(statements) != 1 or not isinstance(statements[0], exp.Query) or statements[0].find(*writes):
        raise ConfigError("query: must be exactly one SELECT that only reads", hint=hint)
    return Relation(sql=dialect.named(f"\n{text.strip()}\n", "source_query"), label="the query")
