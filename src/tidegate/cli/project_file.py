"""Writes the project file that `tidegate init` proposes: a stream for each table, or a pattern for a whole schema.

The file gives the reason of every decision. A password never gets into it.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tidegate.cli.proposal import BY_KEYS, Advice, Login, Proposal, Proposals
from tidegate.core.ids import join_name, split_name
from tidegate.core.yaml_text import listed, scalar

MANY_TABLES = 50
"""From here on a schema becomes one stream with a pattern, for the tables that are loaded alike."""

WIDTH = 116

HEAD = """\
# A Tidegate project: where rows come from, where they go, and how changes are found.
# `tidegate check` validates it, `tidegate plan` shows what would move, `tidegate run` moves it.

registry: sqlite:///.tidegate/registry.db    # positions, plans and runs; postgresql://… when several machines run it

lakes:
  lake:                                      # the first part of every target; an Iceberg catalog
    format: iceberg
    warehouse: ./warehouse                   # or s3://bucket/path
"""


def render(access: Login, found: Proposals) -> str:
    """The whole file."""
    lines = [HEAD, "connections:"]
    if access.variable:
        lines.append(f"  # the password is read from the environment: export {access.variable}=…")
    lines += [f"  {access.name}: {{url: {json.dumps(access.masked)}}}", "", "streams:"]
    for one in found.streams:
        lines += [*_stream(access, one), ""]
    if found.left_out:
        lines += ["  # Left out:", *(f"  #   {' '.join(f'{name}: {why}'.split())}" for name, why in found.left_out), ""]
    return "\n".join(lines)


def _stream(access: Login, one: Proposal) -> list[str]:
    parts = [f"connection: {access.name}", f"table: {scalar(one.table)}"]
    parts += [one.options] if one.options else []
    lines = [
        f"  {scalar(one.name, is_key=True)}:",
        *(line for remark in one.remarks for line in _comment(remark)),
        f"    source: {{{', '.join(parts)}}}",
        f"    target: {scalar(one.target)}",
        *([f"    key: {listed(one.key)}"] if one.key else []),
        *(line for reason in one.advice.reasons for line in _comment(reason)),
        f"    strategy: {one.advice.strategy}",
        f"    write: {one.write}",
    ]
    if one.advice.deletes:
        lines += [*_comment(BY_KEYS), f"    deletes: {one.advice.deletes}"]
    lines += [f"    layout: {one.layout}"] if one.layout else []
    return [*lines, f"    exclude: {listed(one.without)}"] if one.without else lines


def _comment(text: str) -> list[str]:
    """The text as lines of a comment, whatever a name holds."""
    return textwrap.wrap(text, WIDTH, initial_indent="    # ", subsequent_indent="    # ", break_long_words=False)


def grouped(found: Proposals) -> Proposals:
    """The same, a pattern in place of the streams of a schema that are loaded alike, where there are many tables."""
    if len(found.streams) < MANY_TABLES:
        return found
    schemas: defaultdict[str, list[Proposal]] = defaultdict(list)
    for one in found.streams:
        schemas["main" if len(split_name(one.table)) == 1 else split_name(one.table)[0]].append(one)
    streams: list[Proposal] = []
    for schema, ones in schemas.items():
        others = [table for there, table in found.others if there == schema]
        streams += _of_schema(schema, ones, others)
    return replace(found, streams=tuple(streams))


def _of_schema(schema: str, ones: Sequence[Proposal], without: Sequence[str]) -> list[Proposal]:
    """The pattern for the largest group of tables that differ in nothing but their names and keys, and the others.

    Args:
        without: tables of the schema that have no stream.
    """
    strategies = Counter(one.advice.strategy for one in ones if _plain(one))
    strategy = max(strategies, key=lambda each: strategies[each], default=None)
    taken = [one for one in ones if _plain(one) and one.advice.strategy == strategy]
    if len(taken) < 2:
        return list(ones)
    others = [one for one in ones if one not in taken]
    namespace = split_name(taken[0].target)[:-1]
    return [
        replace(
            taken[0],
            name=f"{namespace[-1]}.*",
            table=join_name((schema, "*")),
            target=join_name((*namespace, "{table}")),
            key=(),
            advice=replace(
                taken[0].advice,
                reasons=(f"{len(taken)} tables, each by its primary key; new tables join", *taken[0].advice.reasons),
            ),
            without=(*(split_name(one.table)[-1] for one in others), *without),
        ),
        *others,
    ]


def _plain(one: Proposal) -> bool:
    """Whether a pattern can stand for the table."""
    odd = one.options or one.layout or one.remarks
    return bool(one.key) and not odd and split_name(one.target)[-1] == split_name(one.table)[-1]


def example() -> str:
    """An example file with one stream to edit."""
    access = Login(url="", masked="sqlite:///shop.db", variable=None, name="shop")
    one = Proposal(
        name="orders",
        table="orders",
        target="lake.shop.orders",
        key=("id",),
        advice=Advice(
            strategy="{kind: watermark, column: updated_at, clock: database}",
            reasons=("reads what is newer than the last run; alternatives: smart, checksum, full, sequence",),
            deletes="{detect: key_diff}",
        ),
        write="merge",
    )
    return render(access, Proposals(streams=(one,)))
