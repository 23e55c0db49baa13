"""Parses the `checks:` of a stream, short forms included."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate import plugins
from tidegate.config.nodes import Node, Problems
from tidegate.config.options import (
    KIND,
    build,
    check,
    fields,
    kind_schema,
    plugin_of,
    read,
    schema_of,
    summary,
    without,
)
from tidegate.core.policies.rules import OnFail, Rule, rule_name
from tidegate.core.spelling import suggest
from tidegate.spark.expressions import columns_of

GROUP = "checks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every check takes besides its own options.

    Args:
        on_fail: what happens when rows fail the check: `stop` the load, move the rows to the `quarantine`, or only
            `warn`.
        where: a condition in Spark SQL; only rows for which it is true are checked.
        name: the name of the check in reports.
    """

    on_fail: OnFail = OnFail.STOP
    where: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.where is not None:
            columns_of(self.where)


def read_checks(node: Node | None) -> tuple[Node, ...]:
    """Each check as a mapping with its `kind`, every key known.

    Raises:
        ConfigError: a kind that nobody provides, or an option that it does not take.
    """
    if node is None:
        return ()
    if not isinstance(node.value, list):
        raise node.mark.error("must be a list: `checks: [{not_null: id}]`")
    problems, found = Problems(), []
    for each in node.value:
        with problems.kept():
            found.append(_one(each))
    problems.refuse()
    return tuple(found)


def _one(node: Node) -> Node:
    whole = _with_kind(node)
    cls = plugin_of(GROUP, whole)
    problems, known = Problems(), {*fields(cls), *fields(Common)}
    with problems.kept():
        without(whole, KIND).refuse_unknown(known)
    with problems.kept():
        own = known - fields(Common).keys()
        check(cls, dataclasses.replace(whole, value={key: each for key, each in whole.items.items() if key in own}))
    with problems.kept():
        read(Common, _common(whole))
    problems.refuse()
    return whole


def _with_kind(node: Node) -> Node:
    if node.get(KIND) is not None:
        return node
    kinds = plugins.names(GROUP)
    named = [key for key in node.items if key in kinds]
    if len(named) != 1:
        unknown = next((key for key in node.items if key not in (*kinds, *fields(Common))), "")
        raise node.mark.error(f"must name one kind of check; {suggest(unknown, kinds)}")
    kind, value = named[0], node.items[named[0]]
    main = plugins.load(GROUP, kind).main
    own = value.items if isinstance(value.value, dict) else {main: value}
    return without(node, kind).updated({KIND: Node(value=kind, mark=value.mark), **own})


def rule_of(node: Node, redact: Callable[[str], str], **given: Any) -> Rule:
    """The rule of one of `read_checks`.

    Args:
        redact: takes the project's secrets out of the rule's name and of its reasons.
        given: fields of the check that the program provides.
    """
    cls = plugin_of(GROUP, node)
    common = read(Common, _common(node))
    check = build(GROUP, without(node, *fields(Common)), **given)
    name = redact(common.name) if common.name else rule_name(cls.kind, getattr(check, cls.main), redact)
    return Rule(check=check, name=name, on_fail=common.on_fail, where=common.where, redact=redact)


def checks_schema() -> dict[str, Any]:
    """The JSON schema of `checks:`."""
    common = schema_of(Common)["properties"]
    common["on_fail"] |= {"enum": list(OnFail), "default": OnFail.STOP}
    listed = []
    for kind in plugins.names(GROUP):
        cls = plugins.load(GROUP, kind)
        own = schema_of(cls)
        options = {**own["properties"], **common}
        main = {"anyOf": [own["properties"][cls.main], {"type": "object"}], "description": summary(cls)}
        short = {kind: main, **options}
        listed.append(_closed(kind, short, [kind]))
        listed.append(_closed(kind, {KIND: kind_schema(cls, kind), **options}, [KIND, *own.get("required", [])]))
    return {"type": "array", "items": {"anyOf": listed}}


def _closed(title: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"title": title, "type": "object", "additionalProperties": False}
    return {**schema, "properties": properties, "required": required}


def _common(node: Node) -> Node:
    return Node(value={key: each for key, each in node.items.items() if key in fields(Common)}, mark=node.mark)
