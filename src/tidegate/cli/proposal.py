"""Writes the project file that `tidegate init` proposes: key, strategy, write mode and layout of each table.

Everything comes from the database's catalog. A password never gets into the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate import plugins
from tidegate.config.urls import ENCODE, unencoded
from tidegate.core.ids import Connection, join_name
from tidegate.core.schema import Kind
from tidegate.dialects.shared.database_file import url_of
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.core.ports.dialect import TableFacts

CHANGED = re.compile(
    r"(updated|modified|changed|last_update|last_change|mtime|upd)(_?(at|on|ts|time|date|timestamp))?d?"
)
CREATED = re.compile(r"(created|inserted|occurred|event|order(ed)?|logged|recorded)(_?(at|on|ts|time|date|timestamp))")
LARGE_ROWS = 1_000_000
USUAL_SCHEMAS = ("main", "public")  # they say nothing; the connection's name says more
TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)

HEAD = """\
# A Tidegate project: where rows come from, where they go, and how changes are found.
# `tidegate check` validates it, `tidegate plan` shows what would move, `tidegate run` moves it.

registry: sqlite:///.tidegate/registry.db    # positions, plans and runs; postgresql://… when several machines run it

lakes:
  lake:                                      # the first part of every target; an Iceberg catalog
    format: iceberg
    warehouse: ./warehouse                   # or s3://bucket/path
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A stream as it is written to the file, each line with its reason."""

    name: str
    table: str
    target: str
    key: tuple[str, ...]
    strategy: str
    strategy_reason: str
    write: str
    layout: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A database URL without its password; `variable` is where the password is expected."""

    url: str
    masked: str
    variable: str | None
    name: str


def login(url: str, folder: Path) -> Login:
    """The URL for the file: without password, and a database's own file relative to the project folder.

    Raises:
        ConfigError: not a database URL.
        UnknownPlugin: of a database that is not known.
    """
    scheme, found, rest = url.partition("://")
    if not found:
        raise ConfigError(f"{url!r} is not a database URL", hint="Use postgresql://user@host/database.")
    if unencoded(url):
        raise ConfigError("the user or password of the URL has a character that a URL cannot hold", hint=ENCODE)
    dialect = plugins.dialect_of(Connection(name="", url=url).scheme)()
    if (named := dialect.file(url)) is not None:
        file = named.absolute()
        inside = file.relative_to(folder.absolute()) if file.is_relative_to(folder.absolute()) else file
        plain = url.partition("?")[0]
        return Login(url=url_of(plain, file), masked=url_of(plain, inside), variable=None, name=_word(file.stem))
    name = _word(unquote(rest.partition("?")[0]).rpartition("/")[2] or scheme)
    before, at, host = rest.rpartition("@")
    user, colon, _password = before.partition(":")
    if not at or not colon:
        return Login(url=url, masked=url, variable=None, name=name)
    variable = f"{name.upper()}_PASSWORD"
    return Login(url=url, masked=f"{scheme}://{user}:${{{variable}}}@{host}", variable=variable, name=name)


def propose(access: Login, schema: str | None) -> list[Proposal]:
    """A stream for each table of the database.

    Raises:
        ConfigError: there is no table.
        SourceUnavailable: the database does not answer.
    """
    from tidegate.sources.database.source import table_facts  # noqa: PLC0415 - it imports the database's driver

    connection = Connection(name=access.name, url=access.url)
    facts = table_facts(connection, join_name((schema, "*")) if schema else "*")
    if not facts:
        where = f"the schema {schema!r}" if schema else "the database"
        raise ConfigError(f"{where} has no tables that this user may read", hint="Try another URL, or `--schema`.")
    times = Counter(one.table for one in facts)
    return [proposal(one, access, alone=times[one.table] == 1) for one in facts]


def proposal(facts: TableFacts, access: Login, *, alone: bool) -> Proposal:
    """The stream for one table; `alone` when no other schema has a table of that name.

    A table with a key and a column that shows when a row last changed gets a watermark; everything else is read
    whole, because nothing in a catalog proves that rows are only ever added.
    """
    changed = _named(facts, CHANGED)
    key = facts.primary_key
    if changed and key:
        scan = (
            ""
            if any(index[:1] == (changed,) for index in facts.indexes)
            else "; no index starts with it, so each run scans the table"
        )
        strategy = f"{{kind: watermark, column: {scalar(changed)}, clock: database}}"
        reason = f"set by the database at every change? Else clock: application, with lag and lookback{scan}"
        write = "merge"
    else:
        strategy, write = "{kind: full}", "replace"
        reason = _why_full(facts, changed)
    usual = facts.schema in USUAL_SCHEMAS
    return Proposal(
        # A star in the name of a stream would make a pattern of it.
        name=re.sub(r"[*?]", "_", facts.table if alone else f"{facts.schema}.{facts.table}"),
        table=join_name((facts.schema, facts.table) if facts.schema != "main" else (facts.table,)),
        target=join_name(("lake", access.name if usual else _kept(facts.schema), _kept(facts.table))),
        key=key,
        strategy=strategy,
        strategy_reason=reason,
        write=write,
        layout=_layout(facts),
        remarks=tuple(
            f"{reason}; declare its type: `columns: {{{scalar(name)}: …}}` in `source:`"
            for name, reason in facts.unsupported.items()
        ),
    )


def _kept(name: str) -> str:
    """The name as a lake takes it: see `engine.assemble.assemble`."""
    return "".join(char if char.isprintable() else "_" for char in name).replace("${", "$_{").strip() or "_"


def _why_full(facts: TableFacts, changed: str | None) -> str:
    if changed:
        return f"without a key; with one, {{kind: watermark, column: {scalar(changed)}}} and write: merge move less"
    number = facts.primary_key[0] if len(facts.primary_key) == 1 else None
    column = facts.columns.find(number) if number else None
    if number and column and column.type.kind is Kind.INTEGER:
        return f"if rows are only ever added: {{kind: sequence, column: {scalar(number)}}} and write: append"
    return "no column shows when a row changed"


def _layout(facts: TableFacts) -> str | None:
    created = _named(facts, CREATED)
    sort = f"sort_by: [{', '.join(map(scalar, facts.primary_key))}]" if facts.primary_key else None
    large = facts.rows >= LARGE_ROWS
    parts = f"partition_by: [{scalar(f'months({created})')}]" if created and large else None
    found = ", ".join(part for part in (parts, sort if large else None) if part)
    return f"{{{found}}}" if found else None


def _named(facts: TableFacts, pattern: re.Pattern[str]) -> str | None:
    for column in facts.columns:
        if column.type.kind in TIMES and pattern.fullmatch(column.name.lower()):
            return column.name
    return None


def render(access: Login, proposals: Iterable[Proposal]) -> str:
    """The whole file."""
    lines = [HEAD, "connections:"]
    if access.variable:
        lines.append(f"  # the password is read from the environment: export {access.variable}=…")
    lines += [f"  {access.name}: {{url: {json.dumps(access.masked)}}}", "", "streams:"]
    for one in proposals:
        lines += [
            f"  {scalar(one.name, is_key=True)}:",
            *(f"    # {' '.join(remark.split())}" for remark in one.remarks),
            f"    source: {{connection: {access.name}, table: {scalar(one.table)}}}",
            f"    target: {scalar(one.target)}",
            *([f"    key: [{', '.join(map(scalar, one.key))}]"] if one.key else []),
            f"    # {one.strategy_reason}",
            f"    strategy: {one.strategy}",
            f"    write: {one.write}",
            *([f"    layout: {one.layout}"] if one.layout else []),
            "",
        ]
    return "\n".join(lines)


def example() -> str:
    """An example file with one stream to edit."""
    access = Login(url="", masked="sqlite:///shop.db", variable=None, name="shop")
    one = Proposal(
        name="orders",
        table="orders",
        target="lake.shop.orders",
        key=("id",),
        strategy="{kind: watermark, column: updated_at, clock: database}",
        strategy_reason="reads what is newer than the last run; alternatives: full, sequence",
        write="merge",
    )
    return render(access, [one])


def scalar(text: str, *, is_key: bool = False) -> str:
    """A string as YAML: plain if that is unambiguous, else in double quotes.

    Example:
        >>> print(scalar("public.orders"), scalar("a: b"))
        public.orders "a: b"
    """
    bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text)
    words = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    # A name may hold what looks like a reference; keys are never resolved.
    quoted = json.dumps(text if is_key else text.replace("${", "$${"), ensure_ascii=False)
    return text if bare and text.lower() not in words else quoted


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "source"
