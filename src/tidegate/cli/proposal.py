"""Decides what `tidegate init` proposes for each table: key, strategy, write mode, deletes, types and layout.

Everything comes from the database's catalog; no row is read but the first ones of a SQLite file, whose catalog promises
nothing. What is left out is listed with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate import plugins
from tidegate.config.urls import ENCODE, unencoded
from tidegate.core.ids import Connection, join_name
from tidegate.core.policies.deletes import ALWAYS_ALLOWED, MAX_FRACTION
from tidegate.core.schema import TEXT, Column, Kind
from tidegate.core.secret_names import SECRET_NAME
from tidegate.core.yaml_text import listed, mapped, scalar
from tidegate.dialects.shared.database_file import url_of
from tidegate.errors import ConfigError, TidegateError

if TYPE_CHECKING:
    from tidegate.core.ports.dialect import TableFacts

CHANGED = re.compile(
    r"(updated|modified|changed|last_update|last_change|mtime|upd)(_?(at|on|ts|time|date|timestamp))?d?"
)
CREATED = re.compile(r"(created|inserted|occurred|event|order(ed)?|logged|recorded)(_?(at|on|ts|time|date|timestamp))")
LARGE_ROWS = 1_000_000
PARTITIONS = 200
USUAL_SCHEMAS = ("main", "public")  # they say nothing; the connection's name says more
TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
NUMBERS = re.compile(r"(numeric|decimal)\b.*")
SHOWN = 10
APPLICATION = "clock: application, safety_lag: 15m, lookback: 1d"
COMPARED = "rows that are deleted at the source are deleted here: the comparison finds them"
BY_KEYS = (
    "every run compares the keys, and deletes here what was deleted at the source; a run stops if it would delete more "
    f"than {MAX_FRACTION:.0%} of the table and more than {ALWAYS_ALLOWED} rows, unless max_fraction: allows more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How changes are found.

    Args:
        strategy: as YAML.
        reasons: why, and how deletes are handled.
        deletes: as YAML, for a strategy that does not find deletes by itself.
    """

    strategy: str
    reasons: tuple[str, ...]
    deletes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A stream as it is written to the file, each line with its reason.

    Args:
        options: of `source:` beside connection and table, as YAML.
        remarks: what people should know of the columns.
        without: of a pattern, the tables of its schema that it does not stand for.
    """

    name: str
    table: str
    target: str
    key: tuple[str, ...]
    advice: Advice
    write: str
    options: str = ""
    layout: str | None = None
    remarks: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """What a project would load of a database, and what it would not.

    Args:
        left_out: names of tables and views, and why each is left out.
        others: schema and name of the tables without a stream, also of those that are not asked for.
    """

    streams: tuple[Proposal, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    others: tuple[tuple[str, str], ...] = ()


# What a URL has behind its question mark; the name of a file is no secret, whatever the file holds.
SECRET_OPTION = re.compile(r"(?P<name>[^&=]+(?<!_file))=(?P<value>[^&]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A database URL without its password or other secret; `variable` is where that is expected."""

    url: str
    masked: str
    variable: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The tables that are asked for: patterns of `table` or `schema.table`."""

    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, schema: str, table: str) -> bool:
        asked = not self.tables or any(_matches(each, schema, table) for each in self.tables)
        return asked and not any(_matches(each, schema, table) for each in self.exclude)


def _matches(pattern: str, schema: str, table: str) -> bool:
    return fnmatchcase(table, pattern) or fnmatchcase(f"{schema}.{table}", pattern)


def login(url: str, folder: Path) -> Login:
    """The URL for the file: without password, and a database's own file relative to the project folder.

    Raises:
        ConfigError: not a database URL.
        UnknownPlugin: of a database that is not known.
    """
    scheme, found, rest = url.partition("://")
    if not found:
        raise ConfigError(
            f"{url!r} is not a database URL",
            hint="Use postgresql://user@host/database, or sqlite:///shop.db for a file in this folder.",
        )
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
    secrets = [each for each in SECRET_OPTION.finditer(rest.partition("?")[2]) if SECRET_NAME.search(each["name"])]
    if at and colon and not secrets:
        variable = f"{name.upper()}_PASSWORD"
        return Login(url=url, masked=f"{scheme}://{user}:${{{variable}}}@{host}", variable=variable, name=name)
    if not secrets:
        return Login(url=url, masked=url, variable=None, name=name)
    if len(secrets) > 1 or (at and colon):
        raise ConfigError(
            "the URL holds more than one secret, and only one can be put into a variable here",
            hint="Leave one of them out; a file of a key can be named instead of the key.",
        )
    variable = f"{name.upper()}_{secrets[0]['name'].upper()}"
    masked = url.replace(secrets[0][0], f"{secrets[0]['name']}=${{{variable}}}")
    return Login(url=url, masked=masked, variable=variable, name=name)


def propose(access: Login, scope: Scope) -> Proposals:
    """A stream for each table that is asked for.

    Raises:
        ConfigError: there is none that can be loaded.
        SourceUnavailable: the database does not answer.
    """
    from tidegate.sources.database.source import open_session  # noqa: PLC0415 - it imports the database's driver

    with open_session(Connection(name=access.name, url=access.url)) as session:
        there = session.list_tables()
        asked = [(schema, table) for schema, table in there if scope.takes(schema, table)]
        if not asked:
            shown = ", ".join(join_name(each) for each in there[:SHOWN]) or "none that this user may see"
            more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
            raise ConfigError(
                f"no table matches; the database has {shown}{more}",
                hint="Try another `--tables`, `--schema` or `--exclude`.",
            )
        times = Counter(table for _, table in asked)
        streams, left_out = [], []
        others = [each for each in there if each not in asked]
        for schema, table in asked:
            try:
                facts = session.facts(schema, table)
                streams.append(proposal(facts, access, alone=times[table] == 1))
            except TidegateError as error:
                left_out.append((join_name((schema, table)), error.message))
                others.append((schema, table))
        views = [join_name(each) for each in session.views() if scope.takes(*each)]
    left_out += [
        (name, "a view, so no key is known; add a stream for it, with `key:` if its rows have one") for name in views
    ]
    if not streams:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out[:SHOWN])
        raise ConfigError(f"no table can be loaded: {reasons}", hint="Try another user, or other `--tables`.")
    return Proposals(streams=tuple(streams), left_out=tuple(left_out), others=tuple(others))


def proposal(facts: TableFacts, access: Login, *, alone: bool) -> Proposal:
    """The stream for one table; `alone` when no other schema has a table of that name.

    Raises:
        ConfigError: the table has no columns.
    """
    if not facts.columns.names and not facts.unsupported:
        raise ConfigError("the table has no columns")
    key = facts.primary_key if all(_covered(facts, name) for name in facts.primary_key) else ()
    usual = facts.schema in USUAL_SCHEMAS
    return Proposal(
        # A star in the name of a stream would make a pattern of it.
        name=re.sub(r"[*?]", "_", facts.table if alone else f"{facts.schema}.{facts.table}"),
        table=join_name((facts.schema, facts.table) if facts.schema != "main" else (facts.table,)),
        target=join_name(("lake", access.name if usual else _kept(facts.schema), _kept(facts.table))),
        key=key,
        advice=_advice(facts, key),
        write="merge" if key else "replace",
        options=_options(facts),
        layout=_layout(facts),
        remarks=tuple(_remarks(facts)),
    )


def _options(facts: TableFacts) -> str:
    texts = _as_text(facts)
    others = [name for name in facts.unsupported if name not in texts]
    options = [f"columns: {mapped(dict.fromkeys(texts, 'text'))}"] if texts else []
    return ", ".join([*options, *([f"exclude: {listed(others)}"] if others else [])])


def _as_text(facts: TableFacts) -> list[str]:
    """The columns without an exact type that are read as text."""
    return [name for name in facts.unsupported if facts.as_text is None or name in facts.as_text]


def _advice(facts: TableFacts, key: tuple[str, ...]) -> Advice:
    uncovered = [column.name for column in facts.columns if not column.type.covered]
    if not key and uncovered:
        every = f"no key, and fingerprints do not cover {', '.join(uncovered)}: every run reads and replaces every row"
        return Advice(strategy="{kind: full}", reasons=(every,))
    if not key:
        differs = "no key: the table is read and replaced only when its fingerprint differs"
        return Advice(strategy="{kind: checksum}", reasons=(differs,))
    changed = next((column for column in _named(facts, CHANGED)), None)
    if changed is not None and (changed.name in facts.clocked or not changed.nullable):
        return _by_column(facts, changed)
    return _compared(facts, key, changed, uncovered)


def _by_column(facts: TableFacts, changed: Column) -> Advice:
    """A strategy that follows a column: by the database's clock only where something proves that it is."""
    name, column = changed.name, f"column: {scalar(changed.name)}"
    if proof := facts.clocked.get(name):
        nulls = ", on_null: include" if changed.nullable else ""
        options = f"{column}, clock: database{nulls}"
        reason = f"{proof} sets {name} whenever a row changes, by the database's clock"
    else:
        options = f"{column}, {APPLICATION}"
        reason = (
            f"nothing proves that the database sets {name} at every insert and update, so rows may come late: the last "
            f"day is compared again. For rows that change without {name}, use kind: smart without a column, or let "
            "`verify: {full_every: 7d}` find them by comparing the whole table once a week"
        )
    reasons = (reason, *_scan(facts, changed))
    return Advice(strategy=f"{{kind: watermark, {options}}}", reasons=reasons, deletes="{detect: key_diff}")


def _compared(facts: TableFacts, key: tuple[str, ...], changed: Column | None, uncovered: Sequence[str]) -> Advice:
    """A strategy that needs no cursor: the source's fingerprint tells whether anything changed."""
    why = f"{changed.name} may be NULL, so it does not show every change" if changed else "no column shows what changed"
    number = facts.columns.find(key[0]) if len(key) == 1 else None
    options, how = "", "rows are read only when the table's fingerprint differs"
    if uncovered:
        named = ", ".join(uncovered)
        how = f"every run compares every row, because fingerprints do not cover {named}; only what differs is written"
    elif facts.rows >= LARGE_ROWS and number is not None and number.type.kind is Kind.INTEGER:
        step = 10 ** max(0, len(str(facts.rows // PARTITIONS)) - 1)
        options = f", partition_by: {scalar(number.name)}, modulus: {step}"
        how = f"ranges of {number.name} whose fingerprint differs are read"
    return Advice(strategy=f"{{kind: smart{options}}}", reasons=(f"{why}; {how}", COMPARED))


def _scan(facts: TableFacts, column: Column) -> tuple[str, ...]:
    indexed = any(index[:1] == (column.name,) for index in (facts.primary_key, *facts.indexes))
    return () if indexed else (f"no index starts with {column.name}, so each run scans the table",)


def _covered(facts: TableFacts, name: str) -> bool:
    column = facts.columns.find(name)
    return column.type.covered if column else name in _as_text(facts)


def _remarks(facts: TableFacts) -> list[str]:
    found = []
    texts = _as_text(facts)
    for names, how in (
        (texts, "read as text, or left out with `exclude:`"),
        ([name for name in facts.unsupported if name not in texts], "left out; cast them in a `query:`"),
    ):
        types = ", ".join(f"{name} ({facts.unsupported[name]})" for name in names)
        if types:
            found.append(f"no column of a lake table holds these exactly: {types}; {how}")
    for column in facts.columns:
        if column.type == TEXT and NUMBERS.fullmatch(column.native or ""):
            stated = mapped({column.name: "decimal(38,9)"})
            found.append(
                f"{column.name} is {column.native}, which becomes a string; where the values fit, "
                f"`columns: {stated}` in `source:` keeps numbers"
            )
    return found


def _kept(name: str) -> str:
    """The name as a lake takes it: see `engine.assemble.assemble`."""
    return "".join(char if char.isprintable() else "_" for char in name).replace("${", "$_{").strip() or "_"


def _layout(facts: TableFacts) -> str | None:
    if facts.rows < LARGE_ROWS:
        return None
    created = next((column.name for column in _named(facts, CREATED)), None)
    parts = [f"partition_by: [{scalar(f'months({created})')}]"] if created else []
    parts += [f"sort_by: {listed(facts.primary_key)}"] if facts.primary_key else []
    return f"{{{', '.join(parts)}}}" if parts else None


def _named(facts: TableFacts, pattern: re.Pattern[str]) -> list[Column]:
    return [each for each in facts.columns if each.type.kind in TIMES and pattern.fullmatch(each.name.lower())]


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "source"
