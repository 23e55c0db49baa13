"""Parses the `after_publish:` of a stream: a list of hooks, each of one kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegate.config.listed import PluginList
from tidegate.config.nodes import Node
from tidegate.config.options import build, fields, plugin_of, schema_of
from tidegate.core.ports.hook import StatedHook
from tidegate.core.spelling import suggest

GROUP = "hooks"
MOST_TRIES = 10
LONGEST_TIMEOUT = timedelta(days=1)


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
        if not timedelta(0) < self.timeout <= LONGEST_TIMEOUT:
            raise ValueError("`timeout:` must be longer than nothing, and at most 1d")
        if not 1 <= self.tries <= MOST_TRIES:
            raise ValueError(f"`tries:` must be between 1 and {MOST_TRIES}")


_LIST = PluginList(group=GROUP, common=Common, example="after_publish: [{webhook: '${HOOK_URL}'}]")


def read_hooks(node: Node | None, connections: Collection[str]) -> tuple[Node, ...]:
    """Each hook as a mapping with its `kind`, every key known.

    Raises:
        ConfigError: as `PluginList.read`, or a connection that is not there.
    """

    def refuse_strange(hook: Node) -> None:
        named = hook.get("connection") if "connection" in fields(plugin_of(GROUP, hook)) else None
        if named is not None and named.text() not in connections:
            known = suggest(named.text(), connections)
            raise named.mark.error(f"{named.text()!r} is not under `connections:`; {known}")

    hooks = _LIST.read(node, refuse_strange)
    seen: list[Any] = []
    for hook in hooks:
        if (own := _LIST.own(hook).plain()) in seen:
            raise hook.mark.error("is in the list twice; leave one of them out")
        seen.append(own)
    return hooks


def hook_of(node: Node, project: str, redact: Callable[[str], str], **given: Any) -> StatedHook:
    """The hook of one of `read_hooks`.

    Args:
        project: the project's name.
        given: fields of the hook that the program provides.
    """
    common = _LIST.common_of(node)
    hook = build(GROUP, _LIST.own(node), **given)
    return StatedHook(
        hook=hook, hook_id=_identity(node, redact), project=project, timeout=common.timeout, tries=common.tries
    )


def hooks_schema() -> dict[str, Any]:
    """The JSON schema of `after_publish:`."""
    return _LIST.schema(schema_of(Common)["properties"], lambda kind, own: {**own, "title": kind})


def _identity(node: Node, redact: Callable[[str], str]) -> str:
    """The hook's content in a few characters: options that say how often it is tried are no part of it.

    What holds a secret is hashed slowly: the registry must not let anybody try passwords.
    """
    content = json.dumps(_LIST.own(node).plain(), sort_keys=True)
    if redact(content) == content:
        return hashlib.sha256(content.encode()).hexdigest()[:32]
    return hashlib.scrypt(content.encode(), salt=b"tidegate.hook", n=2**14, r=8, p=1, dklen=16).hex()
