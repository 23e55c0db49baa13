"""Reads the streams of a project file, each with every problem that it has."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.config.checks import read_checks
from tidegate.config.defaults import REQUIRED, complete
from tidegate.config.hooks import read_hooks
from tidegate.config.nodes import Mark, Node, Problems
from tidegate.config.options import KIND, check, convert, plugin_of, read, without
from tidegate.config.paths import absolute_path, absolute_source
from tidegate.config.references import DEFAULTS
from tidegate.config.sections import Contract, Verify
from tidegate.config.targets import is_pattern, refuse_placeholders, refuse_reserved, shared_target
from tidegate.core.ids import split_name
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.retention import Retain
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Layout
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

BY_CONNECTION = ("connection", "database")
"""What keys of a source name a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """One stream of the project file, with the defaults applied.

    Args:
        name: with `*` or `?` one stream for each table that matches (`is_pattern`).
        source, strategy, write: mappings with a `kind`, for `config.build`.
        target: the parts of the table's name; may hold `{table}` and `{schema}`.
        location: where the table's files lie, absolute; None for the place that the lake gives it.
        contract: the mode for each kind of change of columns.
        deletes: how rows that are gone leave the table.
        retain: which rows leave it by their age.
        verify: what is proven of each load, and how often of the whole table.
        checks: mappings with a `kind`, for `config.checks.rule_of`.
        uid: the identity that the project states; None for the one of name and target.
        after_publish: mappings with a `kind`, for `config.hooks.hook_of`.
        tags: words by which streams are selected.
        owner: who is told of its incidents.
        exclude: tables to leave out of a pattern, `table` or `schema.table` with `*` and `?`.
        refused: why this table of a pattern cannot be loaded as the pattern says; None for nothing.
    """

    name: str
    source: Node
    target: tuple[str, ...]
    location: str | None
    strategy: Node
    write: Node
    key: tuple[str, ...]
    contract: Mapping[str, str]
    layout: Layout
    deletes: Deletes
    maintenance: Maintenance
    schedule: Schedule | None
    retain: Retain | None
    verify: Verify
    uid: str | None
    mark: Mark
    layout_mark: Mark
    checks: tuple[Node, ...] = ()
    after_publish: tuple[Node, ...] = ()
    tags: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    owner: str | None = None
    refused: ConfigError | None = None

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every table that matches."""
        return is_pattern(self.name)

    @property
    def connection(self) -> str | None:
        """The name of the source's connection; None for a source without one."""
        node = self.source.get("connection")
        return node.text() if node else None

    def known_to(self, connections: Container[str], lakes: Container[str]) -> bool:
        named = map(self.source.get, BY_CONNECTION)
        return self.target[0] in lakes and all(node is None or node.value in connections for node in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReader:
    """Reads streams one by one.

    Args:
        folder: what paths are relative to.
        defaults, connections, lakes: these sections of the project.
    """

    folder: Path
    defaults: Node
    connections: Node
    lakes: Node
    _targets: dict[tuple[str, ...], str] = field(default_factory=dict, init=False, repr=False)

    def stream(self, name: str, given: Node) -> StreamConfig:
        """One stream, whose table is no other's. Raises ConfigError with everything that is wrong with it."""
        problems = Problems()
        with problems.kept():
            if not name.strip():
                raise given.mark.error("needs a name")
        defaults = self._defaults_of(given)
        with problems.kept():
            self._refuse_stranger(given.get("source") or defaults.get("source"))
        node = complete(given, defaults, problems)
        layout = node.get("layout") or _empty(node, "layout")
        readers: dict[str, Callable[[], Any]] = {
            "target": lambda: self._target(name, node),
            "location": lambda: self._location(name, node),
            "source": lambda: self._source(node.items["source"]),
            "strategy": lambda: _checked("strategies", node.items["strategy"]),
            "write": lambda: _checked("writers", node.items["write"]),
            "key": lambda: _key(node),
            "contract": lambda: dataclasses.asdict(read(Contract, node.get("contract") or _empty(node, "contract"))),
            "layout": lambda: read(Layout, layout),
            "deletes": lambda: read(Deletes, node.get("deletes") or _empty(node, "deletes")),
            "maintenance": lambda: read(Maintenance, node.get("maintenance") or _empty(node, "maintenance")),
            "schedule": lambda: read(Schedule, when) if (when := node.get("schedule")) else None,
            "retain": lambda: read(Retain, rule) if (rule := node.get("retain")) else None,
            "verify": lambda: _verify(node.get("verify") or _empty(node, "verify")),
            "uid": lambda: _uid(node),
            "checks": lambda: read_checks(node.get("checks")),
            "after_publish": lambda: read_hooks(node.get("after_publish"), self.connections.items),
            "tags": lambda: _tags(node),
            "exclude": lambda: _excluded(name, node),
            "owner": lambda: owner.text() if (owner := node.get("owner")) else None,
        }
        parts: dict[str, Any] = {}
        for key, reader in readers.items():
            if key in node.items or key not in REQUIRED:
                with problems.kept():
                    parts[key] = reader()
        problems.refuse()
        return StreamConfig(name=name, mark=node.mark, layout_mark=layout.mark, **parts)

    def _defaults_of(self, stream: Node) -> Node:
        """The project's defaults below those of the stream's connection."""
        sources = (stream.get("source"), self.defaults.get("source"))
        stated = (each.get("connection") for each in sources if each is not None and isinstance(each.value, dict))
        name = next((each for each in stated if each is not None), None)
        entry = self.connections.items.get(str(name.value)) if name is not None else None
        own = entry.get(DEFAULTS) if entry is not None and isinstance(entry.value, dict) else None
        return self.defaults.updated(own.items) if own is not None else self.defaults

    def _target(self, name: str, node: Node) -> tuple[str, ...]:
        """The parts of the table's name, which are no other stream's, in a lake that the project has."""
        target, problems = _target(name, node), Problems()
        mark, lakes = node.items["target"].mark, self.lakes.items
        with problems.kept():
            if target[0] not in lakes:
                known = suggest(target[0], lakes)
                raise mark.error(f"names the lake {target[0]!r}, which is not under `lakes:`; {known}")
        with problems.kept():
            if not is_pattern(name) and (other := self._targets.setdefault(target, name)) != name:
                raise shared_target(node.mark, target, other)
        problems.refuse()
        return target

    def _location(self, name: str, node: Node) -> str | None:
        """Where the files of the stream's table lie. Raises ConfigError for a pattern, and for an empty text."""
        target = node.get("target")
        given = target.get("location") if target is not None and isinstance(target.value, dict) else None
        if given is None:
            return None
        if is_pattern(name):
            raise given.mark.error("is one place for all matching tables; give each of them a stream of its own")
        if not given.text().strip("/ "):
            raise given.mark.error("must be a folder, such as s3://bucket/folder")
        return absolute_path(given.text().rstrip("/"), self.folder)

    def _source(self, node: Node) -> Node:
        """The source, every key known."""
        return _checked("sources", absolute_source(node, self.folder))

    def _refuse_stranger(self, source: Node | None) -> None:
        if source is None or not isinstance(source.value, dict):
            return
        known = self.connections.items
        for node in filter(None, map(source.get, BY_CONNECTION)):
            if node.text() not in known:
                raise node.mark.error(f"{node.text()!r} is not under `connections:`; {suggest(node.text(), known)}")


def _target(name: str, node: Node) -> tuple[str, ...]:
    target = node.items["target"]
    if isinstance(target.value, dict):
        target.refuse_unknown(("table", "location"))
        if target.get("table") is None:
            raise target.mark.error("needs the key 'table'")
        target = target.items["table"]
    if isinstance(target.value, list):
        parts = convert(tuple[str, ...], target)
    else:
        try:
            parts = split_name(target.text())
        except ValueError as error:
            raise target.mark.error(str(error)) from error
    if len(parts) < 3 or not all(parts):
        named = target.text() if isinstance(target.value, str) else list(parts)
        raise target.mark.error(f"{named!r} does not have the form lake.schema.table")
    if isinstance(target.value, str) or is_pattern(name):
        refuse_placeholders(target.mark, parts, filled=is_pattern(name))
    refuse_reserved(target.mark, parts)
    return tuple(parts)


def _key(node: Node) -> tuple[str, ...]:
    if node.get("key") is None:
        return ()
    key: tuple[str, ...] = convert(tuple[str, ...], node.items["key"])
    twice = next((name for name in key if key.count(name) > 1), None)
    if twice is not None:
        raise node.items["key"].mark.error(f"names {twice!r} twice; write each column once")
    return key


def _verify(node: Node) -> Verify:
    """The level alone, or a mapping."""
    return read(Verify, node if isinstance(node.value, dict) else Node(value={"level": node}, mark=node.mark))


def _texts(node: Node, key: str) -> tuple[str, ...]:
    found: tuple[str, ...] = convert(tuple[str, ...], node.items[key]) if node.get(key) is not None else ()
    return found


def _tags(node: Node) -> tuple[str, ...]:
    """The tags, each a word that `--select tag:NAME` can name."""
    tags = _texts(node, "tags")
    for tag in tags:
        if "," in tag:
            words = ", ".join(word.strip() for word in tag.split(",") if word.strip())
            raise node.items["tags"].mark.error(f"has {tag!r}, but a tag cannot contain a comma; write [{words}]")
        if not tag or tag != tag.strip():
            raise node.items["tags"].mark.error(f"has {tag!r}; a tag is not empty and has no spaces around it")
    return tags


def _excluded(name: str, node: Node) -> tuple[str, ...]:
    if node.get("exclude") is not None and not is_pattern(name):
        raise node.items["exclude"].mark.error(
            "leaves tables out of a pattern, but this stream is one table; to leave columns out, use "
            "`source: {exclude: …}`"
        )
    return _texts(node, "exclude")


def _uid(node: Node) -> str | None:
    uid = node.get("uid")
    if uid is None:
        return None
    # No underscore: a stream's branches are found by its uid followed by one.
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", uid.text()):
        raise uid.mark.error("must be 1 to 64 letters, digits and hyphens")
    return uid.text()


def _checked(group: str, node: Node) -> Node:
    check(plugin_of(group, node), without(node, KIND))
    return node


def _empty(node: Node, key: str) -> Node:
    return Node(value={}, mark=node.mark.inside(key))


def refuse_shared_uids(streams: Iterable[StreamConfig]) -> None:
    """Refuses two streams that would be taken for one, by the same stated uid."""
    streams, problems = list(streams), Problems()
    counted = Counter(stream.uid for stream in streams if stream.uid)
    for stream in streams:
        with problems.kept():
            if stream.uid and (counted[stream.uid] > 1 or stream.is_pattern):
                raise stream.mark.inside("uid").error(f"the uid {stream.uid!r} is used by more than one stream")
    problems.refuse()
