"""Refuses a measured query that does more than read the stream's own table: Spark could open any file by it.

What it may not do whoever wrote the project is refused always; functions that may run code, unless it is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate import plugins
from tidegate.config.nodes import Node
from tidegate.config.trust import HINT as TRUST
from tidegate.core.policies.maintenance import PLACE
from tidegate.errors import ConfigError

HINT = f"Write one SELECT over {PLACE}: `SELECT day, sum(amount) FROM {PLACE} GROUP BY day`."


def refused(root: Node, *, trusted: bool) -> Iterator[ConfigError]:
    """Each query that is refused, with its line. `root` is the project, its references resolved."""
    defaults = _within(root, "defaults")
    streams = _within(root, "streams")
    for section in (defaults, *(streams.items.values() if streams is not None else ())):
        rules = _within(section, "maintenance")
        query = rules.get("measure_query") if rules is not None else None
        if rules is None or query is None or not isinstance(query.value, str) or PLACE not in query.value:
            continue
        from tidegate.spark import measurable  # noqa: PLC0415 - few projects measure by a query of their own

        by = rules.get("measure_by") or _given(_within(defaults, "maintenance"), "measure_by")
        read = "spark" if by is None else _sql_of(root, by)
        if why := measurable.refusal(query.value, read):
            yield query.mark.error(why, hint=HINT)
        elif not trusted and (why := measurable.runs_code(query.value, read)):
            yield query.mark.error(why, hint=TRUST)


def _sql_of(root: Node, by: Node) -> str:
    """Whose SQL the connection speaks; Spark's where it is not known, which is refused elsewhere."""
    connection = _given(_within(root, "connections"), str(by.value))
    url = _given(connection, "url") or connection
    scheme = str(url.value).partition("://")[0] if url is not None else ""
    try:
        found: str = plugins.dialect_of(scheme).sqlglot
    except ConfigError:
        return "spark"
    return found


def _within(node: Node | None, name: str) -> Node | None:
    """A section below, if it is one."""
    found = _given(node, name)
    return found if found is not None and isinstance(found.value, Mapping) else None


def _given(node: Node | None, name: str) -> Node | None:
    return node.get(name) if node is not None and isinstance(node.value, Mapping) else None
