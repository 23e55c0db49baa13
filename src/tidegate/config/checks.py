"""Parses the `checks:` of a stream, short forms included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.config.listed import PluginList
from tidegate.config.nodes import Node
from tidegate.config.options import build, plugin_of, schema_of
from tidegate.core.policies.rules import OnFail, Rule, rule_name
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


_LIST = PluginList(group=GROUP, common=Common, example="checks: [{not_null: id}]")


def read_checks(node: Node | None) -> tuple[Node, ...]:
    """Each check as a mapping with its `kind`, every key known. Raises as `PluginList.read`."""
    return _LIST.read(node)


def rule_of(node: Node, redact: Callable[[str], str], **given: Any) -> Rule:
    """The rule of one of `read_checks`.

    Args:
        redact: takes the project's secrets out of the rule's name and of its reasons.
        given: fields of the check that the program provides.
    """
    cls = plugin_of(GROUP, node)
    common = _LIST.common_of(node)
    check = build(GROUP, _LIST.own(node), **given)
    name = redact(common.name) if common.name else rule_name(cls.kind, getattr(check, cls.main), redact)
    return Rule(check=check, name=name, on_fail=common.on_fail, where=common.where, redact=redact)


def checks_schema() -> dict[str, Any]:
    common = schema_of(Common)["properties"]
    common["on_fail"] |= {"enum": list(OnFail), "default": OnFail.STOP}
    return _LIST.schema(common, lambda _kind, _own: {"type": "object"})
