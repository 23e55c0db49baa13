"""Applies `defaults:` to a stream and expands the short forms of its plugins.

A default is only applied to a strategy that has the option.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tidegate import plugins
from tidegate.config.nodes import Node, Problems
from tidegate.config.options import KIND, as_plugin, canonical, fields, missing, plugin_of
from tidegate.core.spelling import nearest

INHERITED = (
    "source",
    "key",
    "strategy",
    "write",
    "contract",
    "layout",
    "deletes",
    "maintenance",
    "schedule",
    "retain",
    "verify",
    "checks",
    "after_publish",
    "tags",
    "owner",
)
STREAM_KEYS = (*INHERITED, "target", "uid", "exclude")
MERGED = ("source", "contract", "layout", "deletes", "maintenance", "retain")
REQUIRED = {
    "source": "{connection: shop, table: public.orders}",
    "target": "lake.shop.orders",
    "strategy": "{kind: watermark, column: updated_at}",
    "write": "merge",
}
INFERRED_KINDS = {
    "topic": "change_log",
    "slot": "change_log",
    "capture_instance": "change_log",
    "change_tracking": "change_log",
    "envelope": "change_log",
    "table": "database",
    "query": "database",
    "path": "files",
    "iceberg": "lake_table",
    "delta": "lake_table",
    "dlt": "dlt",
    "http": "http",
}


def complete(stream: Node, defaults: Node, problems: Problems) -> Node:
    """The stream with everything it inherits, and every plugin as a mapping with its `kind`.

    Args:
        problems: gets the keys that are unknown or missing, of the stream or of the defaults; parts that are wrong are
            left out.
    """
    with problems.kept():
        stream.refuse_unknown(STREAM_KEYS)
    inherited = {key: node for key, node in defaults.items.items() if key in INHERITED}
    options = {key: node for key, node in defaults.items.items() if key not in INHERITED}
    entries = {**inherited, **stream.items}
    for key in MERGED:
        stated, inherited_value = stream.get(key), inherited.get(key)
        if stated is not None and inherited_value is not None:
            with problems.kept():
                entries[key] = dataclasses.replace(stated, value={**inherited_value.items, **stated.items})
    parts: dict[str, Callable[[Node], Node]] = {
        "source": _with_source_kind,
        "target": lambda node: node,
        "strategy": lambda node: _with_options(as_plugin(node), options),
        "write": as_plugin,
    }
    for key, read in parts.items():
        with problems.kept():
            if key not in entries and stream.misspelt(key, STREAM_KEYS):
                continue
            if key not in entries:
                raise missing(stream.mark, key, REQUIRED[key])
            entries[key] = read(entries.pop(key))
    return dataclasses.replace(stream, value=entries)


def strategy_options() -> frozenset[str]:
    """Every option that some strategy has: what `defaults:` may hold besides the keys of a stream."""
    kinds = plugins.names("strategies")
    return frozenset(option for kind in kinds for option in fields(plugins.load("strategies", kind)))


def _with_source_kind(node: Node) -> Node:
    if node.get(KIND) is not None:
        return node
    for key, kind in INFERRED_KINDS.items():
        if key in node.items:
            return node.updated({KIND: Node(value=kind, mark=node.mark)})
    meant = next((f" (did you mean {near!r}?)" for key in node.items if (near := nearest(key, INFERRED_KINDS))), "")
    known = ", ".join(f"`{key}:`" for key in INFERRED_KINDS)
    raise node.mark.error(f"needs one of {known}, or the `kind:` of another source{meant}")


def _with_options(strategy: Node, options: dict[str, Node]) -> Node:
    cls = plugin_of("strategies", strategy)
    strategy = canonical(cls, strategy)
    unknown = options.keys() - fields(cls).keys()
    if unknown:
        known = {*INHERITED, *strategy_options()}
        Node(value={key: options[key] for key in sorted(unknown)}, mark=strategy.mark).refuse_unknown(known)
    applied = {key: node for key, node in options.items() if key not in unknown}
    return dataclasses.replace(strategy, value={**applied, **strategy.items})
