"""The tables of a project as sources of dbt: columns, data tests, freshness and metadata, as `sources.yml`.

Read from the tables' metadata, without Spark and without a source. Says how much has no counterpart in dbt.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import yaml

from tidegate.core.ids import Target
from tidegate.core.policies.rules import ColumnTest, OnFail, Rule
from tidegate.core.policies.schedule import Schedule
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.engine.stream import LoadsTable, Stream

HEADER = "# Written by `tidegate export dbt-sources`; changes are lost when it runs again."
MARKERS = re.compile(r"\{[{%#]")
CALL = re.compile(r"\s*(?:env_var|ref|var|source|doc)\s*\(.+\)\s*$")
"""What dbt evaluates in the arguments of a data test, even without braces."""
TURNS = 200
"""Turns of a cron among which the longest pause is looked for."""
TYPES: Mapping[tuple[Kind, int], str] = {
    (Kind.BOOLEAN, 0): "boolean",
    (Kind.INTEGER, 32): "integer",
    (Kind.INTEGER, 64): "bigint",
    (Kind.FLOAT, 32): "real",
    (Kind.FLOAT, 64): "double",
    (Kind.DATE, 0): "date",
    (Kind.TIMESTAMP, 0): "timestamp(6)",
    (Kind.TIMESTAMPTZ, 0): "timestamp(6) with time zone",
    (Kind.TEXT, 0): "varchar",
    (Kind.BINARY, 0): "varbinary",
}
"""Trino's names of the types that a lake stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtSources:
    """The file.

    Args:
        text: YAML that dbt reads.
        tables: how many tables it has.
        left_out: for people, what dbt has no counterpart of.
    """

    text: str
    tables: int
    left_out: tuple[str, ...]


def dbt_sources(streams: Sequence[Stream], database: str | None = None) -> DbtSources:
    """The sources of these streams' tables, one for each namespace.

    Args:
        database: dbt's database of all of them (Trino: the catalog); by default the name of each lake.
    """
    names = _names(streams)
    sources: dict[str, dict[str, Any]] = {}
    left_out: list[str] = []
    for stream in streams:
        target = stream.target
        source = sources.setdefault(
            names[target.lake, target.namespace],
            {
                "name": names[target.lake, target.namespace],
                "database": database or target.lake,
                "schema": ".".join(target.namespace),
                "loader": "tidegate",
                "tables": [],
            },
        )
        table, missing = _table(stream, names, database)
        source["tables"].append(table)
        left_out += missing
    document = literal({"version": 2, "sources": list(sources.values())})
    lines = [HEADER, *(f"# Left out: {' '.join(each.split())}" for each in left_out)]
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10_000)
    text = "\n".join([*lines, body])
    return DbtSources(text=text, tables=len(streams), left_out=tuple(left_out))


def _names(streams: Sequence[Stream]) -> dict[tuple[str, tuple[str, ...]], str]:
    """A name for each namespace of each lake; with the lake where two lakes have the same one."""
    places = dict.fromkeys((stream.target.lake, stream.target.namespace) for stream in streams)
    plain = Counter("_".join(namespace) for _, namespace in places)
    return {
        (lake, namespace): name if plain[name := "_".join(namespace)] == 1 else f"{lake}_{name}"
        for lake, namespace in places
    }


def _table(
    stream: Stream, names: Mapping[tuple[str, tuple[str, ...]], str], database: str | None
) -> tuple[dict[str, Any], list[str]]:
    schema = stream.format.state(stream.target, stream.uid).schema
    missing = [] if schema is not None else [f"columns and data tests of {stream.name}, whose table does not exist yet"]
    tests, without = _tests(stream, schema, names)
    if without:
        kinds = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(without.items()))
        missing.append(f"{without.total()} rules of {stream.name} that dbt itself has no data test for: {kinds}")
    config: dict[str, Any] = {"meta": _meta(stream)}
    schedule = stream.policies.schedule
    if schedule is not None and stream.loads is not None:
        config["freshness"] = freshness(schedule, stream.loads.every)
    elif schedule is not None:
        missing.append(f"freshness of {stream.name}: set `loads_table:` in tidegate.yaml")
    table: dict[str, Any] = {"name": stream.target.table}
    if schema is not None and schema.comment:
        table["description"] = schema.comment
    table["config"] = config
    if stream.loads is not None:
        table["loaded_at_query"] = loaded_at_query(stream, stream.loads, database)
    if schema is not None:
        table["columns"] = [_column(column, tests.get(column.name, [])) for column in schema]
    return table, missing


def _meta(stream: Stream) -> dict[str, Any]:
    """The key that Tidegate's assets of Dagster have, and what a person looks for first."""
    return {
        "dagster": {"asset_key": stream.name.split(".")},
        "tidegate": {
            "stream": stream.name,
            "uid": stream.uid,
            "target": str(stream.target),
            "source": stream.source_name,
            "strategy": stream.strategy.kind,
            "write": stream.writer.kind,
        },
    }


def _column(column: Column, tests: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "data_type": _type(column.type)}
    if column.comment:
        found["description"] = column.comment
    if tests:
        found["data_tests"] = list(tests)
    return found


def _type(kind: Type) -> str:
    stored = kind.stored
    if stored.kind is Kind.DECIMAL:
        return f"decimal({stored.precision},{stored.scale})"
    if stored.kind is Kind.ARRAY:
        return f"array({_type(stored.element)})" if stored.element is not None else "array(varchar)"
    return TYPES[stored.kind, stored.bits]


def literal(value: Any) -> Any:
    """The document with every text as dbt has to find it to read that very text, and no template of its own.

    Example:
        >>> literal({"name": "a", "values": ["b", "var(1)"]})
        {'name': 'a', 'values': ['b', "{{ 'var(1)' }}"]}
    """
    if isinstance(value, _Template):
        return str(value)
    if isinstance(value, dict):
        return {name: literal(each) for name, each in value.items()}
    if isinstance(value, list):
        return [literal(each) for each in value]
    if not isinstance(value, str) or not (MARKERS.search(value) or CALL.match(value)):
        return value
    return "{{ " + _string(value) + " }}"


def _string(text: str) -> str:
    """A text as a literal of Jinja, without a brace, by which Jinja looks for the ends of templates."""
    escapes = {"\\": "\\\\", "'": "\\'", "{": "\\x7b"}
    return "'" + "".join(escapes.get(each, each) for each in text) + "'"


class _Template(str):
    """A text that dbt is to evaluate."""

    __slots__ = ()


def _tests(
    stream: Stream, schema: Schema | None, names: Mapping[tuple[str, tuple[str, ...]], str]
) -> tuple[dict[str, list[Any]], Counter[str]]:
    """The data tests by column, and the kinds of rules that have none."""
    if schema is None:
        return {}, Counter()
    found: dict[str, list[Any]] = {}
    without: Counter[str] = Counter()
    if stream.writer.needs_key and stream.writer.versions is None:
        for name in stream.key:
            found[name] = ["not_null"]
        if len(stream.key) == 1:
            found[stream.key[0]].append("unique")
        else:
            without["unique key of several columns"] += 1
    for rule in stream.policies.checks:
        tests = [_test(rule, each, schema, names) for each in _portable(rule)]
        if not tests or None in tests:
            without[rule.check.kind] += 1
            continue
        for column, test in filter(None, tests):
            if test not in found.setdefault(column, []):
                found[column].append(test)
    return found, without


def _portable(rule: Rule) -> Sequence[ColumnTest]:
    """The rule as tests of single columns; none where its condition is written in Spark's SQL."""
    tests: Sequence[ColumnTest] = getattr(rule.check, "column_tests", ())
    return () if rule.where is not None else tests


def _test(
    rule: Rule, test: ColumnTest, schema: Schema, names: Mapping[tuple[str, tuple[str, ...]], str]
) -> tuple[str, Any] | None:
    """The column, and the test as dbt writes it; None where dbt would compare something else."""
    arguments: dict[str, Any] = {}
    column = schema.find(test.column)
    if column is None:
        return None
    if test.values:
        kind = column.type.stored.kind
        texts = kind is Kind.TEXT and all(isinstance(each, str) for each in test.values)
        numbers = kind in (Kind.INTEGER, Kind.DECIMAL) and all(type(each) is int for each in test.values)
        if not texts and not numbers:
            return None
        values = [_quoted(each) for each in test.values]
        arguments = {"values": values, **({} if texts else {"quote": False})}
    if test.to is not None:
        to: Target = test.to
        if (to.lake, to.namespace) not in names:
            return None
        called = f"source({_string(names[to.lake, to.namespace])}, {_string(to.table)})"
        arguments = {"to": _Template(called), "field": test.field}
    said: dict[str, Any] = {"arguments": arguments} if arguments else {}
    if rule.on_fail is OnFail.WARN:
        said["config"] = {"severity": "warn"}
    return test.column, {test.name: said} if said else test.name


def _quoted(value: Any) -> Any:
    """A text as dbt puts it between quotes."""
    return value.replace("'", "''") if isinstance(value, str) else value


def loaded_at_query(stream: Stream, loads: LoadsTable, database: str | None) -> str:
    """When the stream's table was last known to be current, from the table of loads."""
    parts = (database or loads.target.lake, *loads.target.parts[1:-1], loads.target.table)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    return f"select max(loaded_at) from {name} where stream_uid = '{stream.uid}' and caught_up"


def freshness(schedule: Schedule, slack: timedelta) -> dict[str, Any]:
    """Late after a whole turn was missed, an error after two, as everywhere in Tidegate.

    Args:
        slack: how much older the last look at an unchanged table may be than the table of loads says.
    """
    turn = max(_pauses(schedule))
    return {name: _period(turn * turns + slack) for name, turns in (("warn_after", 2), ("error_after", 3))}


def _pauses(schedule: Schedule) -> Iterator[timedelta]:
    moments = [datetime(2024, 12, 31, tzinfo=UTC)]
    for _ in range(TURNS):
        moments.append(schedule.after(moments[-1], moments[-1]))
    yield from (later - earlier for earlier, later in pairwise(moments[1:]))


def _period(length: timedelta) -> dict[str, Any]:
    return {"count": math.ceil(length / timedelta(minutes=1)), "period": "minute"}
