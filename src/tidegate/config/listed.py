"""Parses lists of plugins in a stream, such as `checks:`: each of one kind, in its short form or with `kind:`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate import plugins
from tidegate.config.nodes import Node, Problems
from tidegate.config.options import KIND, check, fields, kind_schema, plugin_of, read, schema_of, summary, without
from tidegate.core.spelling import suggest

Common = TypeVar("Common")


def _anything(_: Node) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginList(Generic[Common]):
    """The list of one group of plugins.

    Args:
        group: of plugins, which have a `main` option: what stands behind the kind in the short form.
        common: a dataclass of what each takes besides its own options.
        example: how such a list is written.
    """

    group: str
    common: type[Common]
    example: str

    def read(self, node: Node | None, also: Callable[[Node], None] = _anything) -> tuple[Node, ...]:
        """Each plugin as a mapping with its `kind`, every key known.

        Args:
            also: refuses what else there is to refuse of one of them.

        Raises:
            ConfigError: a kind that nobody provides, an option that it does not take, or what `also` raises.
        """
        if node is None:
            return ()
        if not isinstance(node.value, list):
            raise node.mark.error(f"must be a list: `{self.example}`")
        problems, found = Problems(), []
        for each in node.value:
            with problems.kept():
                found.append(self._one(each, also))
        problems.refuse()
        return tuple(found)

    def common_of(self, node: Node) -> Common:
        return read(self.common, self._part(node, fields(self.common)))

    def own(self, node: Node) -> Node:
        """Kind and own options of one of them."""
        return without(node, *fields(self.common))

    def schema(self, common: Mapping[str, Any], inner: Callable[[str, Mapping[str, Any]], Any]) -> dict[str, Any]:
        """The JSON schema of the list.

        Args:
            common: the schemas of the common options.
            inner: the schema of the mapping that may stand behind a kind, by the kind and the schema of its options.
        """
        listed = []
        for kind in plugins.names(self.group):
            cls = plugins.load(self.group, kind)
            own = schema_of(cls)
            options = {**own["properties"], **common}
            main = {"anyOf": [own["properties"][cls.main], inner(kind, own)], "description": summary(cls)}
            listed.append(_closed(kind, {**options, kind: main}, [kind]))
            listed.append(_closed(kind, {KIND: kind_schema(cls, kind), **options}, [KIND, *own.get("required", [])]))
        return {"type": "array", "items": {"anyOf": listed}}

    def _one(self, node: Node, also: Callable[[Node], None]) -> Node:
        whole = self._with_kind(node)
        cls = plugin_of(self.group, whole)
        problems, known = Problems(), {*fields(cls), *fields(self.common)}
        with problems.kept():
            without(whole, KIND).refuse_unknown(known)
        with problems.kept():
            check(cls, self._part(whole, known - fields(self.common).keys()))
        with problems.kept():
            self.common_of(whole)
        with problems.kept():
            also(whole)
        problems.refuse()
        return whole

    def _with_kind(self, node: Node) -> Node:
        if node.get(KIND) is not None:
            return node
        kinds = plugins.names(self.group)
        named = [key for key in node.items if key in kinds]
        if len(named) != 1:
            unknown = next((key for key in node.items if key not in (*kinds, *fields(self.common))), "")
            what = plugins.SINGULAR[self.group]
            raise node.mark.error(f"must name one kind of {what}; {suggest(unknown, kinds)}")
        kind, value = named[0], node.items[named[0]]
        main = plugins.load(self.group, kind).main
        own = value.items if isinstance(value.value, dict) else {main: value}
        return without(node, kind).updated({KIND: Node(value=kind, mark=value.mark), **own})

    def _part(self, node: Node, names: Any) -> Node:
        return dataclasses.replace(node, value={key: each for key, each in node.items.items() if key in names})


def _closed(title: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"title": title, "type": "object", "additionalProperties": False}
    return {**schema, "properties": properties, "required": required}
