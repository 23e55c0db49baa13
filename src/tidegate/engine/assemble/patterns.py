"""Expands a stream with `*` or `?` in its name: one stream for each table that matches.

Names, targets and, where the stream states no key, primary keys come from the source's catalog. Reads no rows.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence

from tidegate import plugins
from tidegate.config import Config, Node, StreamConfig
from tidegate.config.options import plugin_of
from tidegate.core.ids import join_name
from tidegate.core.policies.deletes import Detect
from tidegate.core.yaml_text import listed
from tidegate.errors import ConfigError

Table = tuple[str | None, str]


def expanded(config: Config, entry: StreamConfig) -> list[StreamConfig]:
    """The entry itself; of a pattern one for each table that matches, in the order of their names.

    A table whose stream the project has under that very name is left to it. One that lacks a key which is needed
    becomes a stream that is refused: it may have come long after the others were first loaded.

    Raises:
        ConfigError: no table matches, or two tables would be one stream.
        SourceUnavailable: the source cannot be asked.
    """
    if not entry.is_pattern:
        return [entry]
    table = entry.source.get("table")
    if table is None or entry.connection is None:
        raise entry.mark.error("a name with * or ? needs a `source:` with a `table:` that also has one")
    lister = plugins.load("sources", entry.source.items["kind"].text())
    connection = config.connection(entry.connection)
    matches = _named(entry, lister.tables(connection, table.text()))
    own = {stream.name for stream in config.streams if not stream.is_pattern}
    tables = {name: found for name, found in matches.items() if name not in own}
    if not tables:
        left = f"; `exclude: {listed(entry.exclude)}` leaves out what does" if entry.exclude else ""
        raise table.mark.error(f"no table matches {table.text()!r}{left}")
    if not _needs_key(entry):
        return [_stream(entry, name, found, entry.key) for name, found in tables.items()]
    keys = lister.primary_keys(connection)
    return [_stream(entry, name, found, keys.get(found, ())) for name, found in tables.items()]


def _named(entry: StreamConfig, tables: Sequence[Table]) -> dict[str, Table]:
    """The tables by the name of their stream, without those that are excluded."""
    found: dict[str, Table] = {}
    for schema, table in tables:
        if any(_matches(each, schema, table) for each in entry.exclude):
            continue
        name = _fill(entry.name, schema, table)
        if name in found:
            both = " and ".join(join_name(part for part in each if part) for each in (found[name], (schema, table)))
            raise entry.mark.error(
                f'{both} would both be the stream {name!r}; write the name as "*.*", schema and table, and '
                f"{{schema}} in `target:`"
            )
        found[name] = schema, table
    return found


def _matches(pattern: str, schema: str | None, table: str) -> bool:
    return fnmatch.fnmatchcase(table, pattern) or fnmatch.fnmatchcase(f"{schema}.{table}", pattern)


def _needs_key(entry: StreamConfig) -> bool:
    needed = getattr(plugin_of("writers", entry.write), "needs_key", False)
    return not entry.key and (needed or entry.deletes.detect is Detect.KEY_DIFF)


def _keyless(entry: StreamConfig, name: str, table: Table) -> ConfigError:
    label, writer = join_name(part for part in table if part), entry.write.items["kind"].text()
    return ConfigError(
        f"{entry.mark}: stream {name!r}: write: {writer} needs a key, and {label} has no primary key",
        hint=f"Leave it out with `exclude: {listed([table[1]])}`, or give it a stream {name!r} of its own, with `key:` "
        "or with `strategy: checksum` and `write: replace`.",
        file=entry.mark.file,
        line=entry.mark.line,
        key=".".join(entry.mark.path),
    )


def _stream(entry: StreamConfig, name: str, table: Table, key: tuple[str, ...]) -> StreamConfig:
    relation = Node(value=join_name(part for part in table if part), mark=entry.source.items["table"].mark)
    return dataclasses.replace(
        entry,
        name=name,
        source=entry.source.updated({"table": relation}),
        target=tuple(_replaced(entry.target, schema=table[0] or "main", table=table[1])),
        key=key,
        exclude=(),
        refused=None if key or not _needs_key(entry) else _keyless(entry, name, table),
    )


def _fill(pattern: str, schema: str | None, table: str) -> str:
    """The name with the table's in place of the last star, and the schema's in place of one before it."""
    *before, last = re.split(r"[*?]", pattern)
    if len(before) < 2:
        return f"{before[0]}{table}{last}"
    return f"{before[0]}{schema or 'main'}{''.join(before[1:])}{table}{last}"


def _replaced(parts: Iterable[str], *, schema: str, table: str) -> Iterator[str]:
    for part in parts:
        yield part.replace("{schema}", schema).replace("{table}", table)
