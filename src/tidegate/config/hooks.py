"""Parses the `after_publish:` of a stream: a list of hooks, each of one kind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
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
from tidegate.core.ports.hook import StatedHook
from tidegate.core.spelling import suggest

GROUP = "hooks"
MOST_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every hook takes besides its own options.

    Args:
        timeout: how long one attempt may take.
        tries: how often it is tried in one run; the next run tries again.
    """

    timeout: timedelta = timedelta(minutes=5)
    tries: int = 3

    def __post_init__(self) -> None:
        if self.timeout <= timedelta(0):
            raise ValueError("`timeout:` must be longer than nothing")
        if not 1 <= self.tries <= MOST_TRIES:
            raise ValueError(f"`tries:` must be between 1 and {MOST_TRIES}")


def read_hooks(node: Node | None, connections: Collection[str]) -> tuple[Node, ...]:
    """Each hook as a mapping with its `kind`, every key known.

    Raises:
        ConfigError: a kind that nobody provides, an option that it does not take, or a connection that is not there.
    """
    if node is None:
        return ()
    if not isinstance(node.value, list):
        raise node.mark.error("must be a list: `after_publish: [{webhook: '${HOOK_URL}'}]`")
    problems, found = Problems(), []
    for each in node.value:
        with problems.kept():
            found.append(_one(each, connections))
    problems.refuse()
    return tuple(found)


def hook_of(node: Node, project: str, redact: Callable[[str], str], **given: Any) -> StatedHook:
    """The hook of one of `read_hooks`.

    Args:
        project: the project's name.
        given: fields of the hook that the program provides.
    """
    common = read(Common, _common(node))
    hook = build(GROUP, _own(node), **given)
    return StatedHook(
        hook=hook, hook_id=_identity(node, redact), project=project, timeout=common.timeout, tries=common.tries
    )


def hooks_schema() -> dict[str, Any]:
    """The JSON schema of `after_publish:`."""
    common = schema_of(Common)["properties"]
    listed = []
    for kind in plugins.names(GROUP):
        cls = plugins.load(GROUP, kind)
        own = schema_of(cls)
        options = {**own["properties"], **common}
        value = own["properties"][cls.main]
        main = {"anyOf": [value, {**own, "title": kind}], "description": summary(cls)}
        listed.append(_closed(kind, {**options, kind: main}, [kind]))
        listed.append(_closed(kind, {KIND: kind_schema(cls, kind), **options}, [KIND, *own.get("required", [])]))
    return {"type": "array", "items": {"anyOf": listed}}


def _one(node: Node, connections: Collection[str]) -> Node:
    whole = _with_kind(node)
    cls = plugin_of(GROUP, whole)
    problems, options = Problems(), {*fields(cls), *fields(Common)}
    with problems.kept():
        without(whole, KIND).refuse_unknown(options)
    with problems.kept():
        own = {key: each for key, each in whole.items.items() if key in fields(cls)}
        check(cls, dataclasses.replace(whole, value=own))
    with problems.kept():
        read(Common, _common(whole))
    with problems.kept():
        named = whole.get("connection") if "connection" in fields(cls) else None
        if named is not None and named.text() not in connections:
            known = suggest(named.text(), connections)
            raise named.mark.error(f"{named.text()!r} is not under `connections:`; {known}")
    problems.refuse()
    return whole


def _with_kind(node: Node) -> Node:
    if node.get(KIND) is not None:
        return node
    kinds = plugins.names(GROUP)
    named = [key for key in node.items if key in kinds]
    if len(named) != 1:
        unknown = next((key for key in node.items if key not in (*kinds, *fields(Common))), "")
        raise node.mark.error(f"must name one kind of hook; {suggest(unknown, kinds)}")
    kind, value = named[0], node.items[named[0]]
    main = plugins.load(GROUP, kind).main
    own = value.items if isinstance(value.value, dict) else {main: value}
    return without(node, kind).updated({KIND: Node(value=kind, mark=value.mark), **own})


def _identity(node: Node, redact: Callable[[str], str]) -> str:
    """The hook's content in a few characters: options that say how often it is tried are no part of it.

    What holds a secret is hashed slowly: the registry must not let anybody try passwords.
    """
    content = json.dumps(_own(node).plain(), sort_keys=True)
    if redact(content) == content:
        return hashlib.sha256(content.encode()).hexdigest()[:32]
    return hashlib.scrypt(content.encode(), salt=b"tidegate.hook", n=2**14, r=8, p=1, dklen=16).hex()


def _own(node: Node) -> Node:
    return without(node, *fields(Common))


def _common(node: Node) -> Node:
    return Node(value={key: each for key, each in node.items.items() if key in fields(Common)}, mark=node.mark)


def _closed(title: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"title": title, "type": "object", "additionalProperties": False}
    return {**schema, "properties": properties, "required": required}
