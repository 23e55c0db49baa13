"""Builds the streams of a project: creates plugins, expands patterns, joins and checks the parts.

Opens a source only to expand a pattern. Parts that cannot work together are refused.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate import plugins
from tidegate.config import Config, Node, StreamConfig, build
from tidegate.config.checks import rule_of
from tidegate.config.defaults import INFERRED_KINDS
from tidegate.config.nodes import Problems, from_values
from tidegate.config.options import fields, located, plugin_of
from tidegate.config.targets import shared_target
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.compatibility import incompatibilities
from tidegate.core.flavours import Flavour, flavour_of
from tidegate.core.ids import Target, join_name, stream_uid
from tidegate.core.policies.rules import Rule
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import Source
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.spelling import suggest
from tidegate.engine import column_backfill, rescued_columns
from tidegate.engine.quality.rules import renamed
from tidegate.engine.replication_slot import refuse_shared
from tidegate.engine.stream import Policies, Stream, VerifyLevel
from tidegate.errors import ConfigError, Misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which streams of a project are meant: those named, else those that match, else all.

    Args:
        options: of the strategy, stated for this call alone; they win over the stream's own.
    """

    names: tuple[str, ...] = ()
    select: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, name: str) -> bool:
        """Whether a stream of that name is meant."""
        if self.names:
            return name in self.names
        return self.select is None or fnmatch.fnmatchcase(name, self.select)

    def may_expand(self, pattern: str) -> bool:
        """Whether a pattern can stand for a stream that is meant."""
        return not self.names or any(fnmatch.fnmatchcase(name, pattern) for name in self.names)


def formats(config: Config) -> dict[str, Format]:
    """The lakes of a project, by name."""
    return {name: build("formats", node, name=name, folder=config.folder) for name, node in config.lakes.items()}


def streams(config: Config, lakes: dict[str, Format], choice: Choice) -> list[Stream]:
    """The streams that are meant, in the order of the project.

    Raises:
        ConfigError: a name that no stream has, or nothing matches.
        Misfit: parts that cannot work together; all reasons are in the message.
    """
    found = {stream.name: stream for stream in _all(config, lakes, choice)}
    missing = [name for name in choice.names if name not in found]
    if missing:
        near = suggest(missing[0], [*found, *(stream.name for stream in config.streams)])
        named = ", ".join(map(repr, missing))
        are = "is not a stream" if len(missing) == 1 else "are not streams"
        raise ConfigError(f"{named} {are} of this project; {near}", hint="`tidegate check` lists the streams.")
    refuse_shared_targets(config, found.values())
    if not found:
        raise ConfigError(f"no stream matches {choice.select!r}", hint="`tidegate check` lists the streams.")
    refuse_strange_options(choice, [stream.strategy for stream in found.values()])
    return list(found.values())


def refuse_strange_options(choice: Choice, strategies: Sequence[Strategy]) -> None:
    """Refuses options that no strategy has. Raises ConfigError, which names the nearest one."""
    known = {name for strategy in strategies for name in fields(type(strategy))}
    strange = [name for name in choice.options if name not in known]
    if strange:
        raise ConfigError(
            f"--set {strange[0]}: the strategies of these streams have no such option; {suggest(strange[0], known)}",
            hint="docs/config.md lists the options of each strategy.",
        )


def refuse_shared_targets(config: Config, found: Iterable[Stream]) -> None:
    """Refuses a stream that a pattern stands for whose table is another stream's.

    Raises:
        ConfigError: names both.
    """
    first: dict[Target, Stream] = {}
    for stream in found:
        other = first.setdefault(stream.target, stream)
        if other is not stream:
            entries = (entry for entry in config.streams if fnmatch.fnmatchcase(stream.name, entry.name))
            mark = next(entries, config.streams[0]).mark
            raise shared_target(mark, stream.target.parts, other.name)


def _all(config: Config, lakes: dict[str, Format], choice: Choice) -> Iterator[Stream]:
    for entry in config.streams:
        if not entry.is_pattern:
            if choice.takes(entry.name):
                yield join(config, lakes, _overridden(entry, choice))
        elif choice.may_expand(entry.name):
            chosen = (one for one in _expand(config, entry) if choice.takes(one.name))
            yield from (join(config, lakes, _overridden(one, choice)) for one in chosen)


def _overridden(entry: StreamConfig, choice: Choice) -> StreamConfig:
    """The stream with the options of this call that its strategy has."""
    if not choice.options:
        return entry
    known = fields(plugin_of("strategies", entry.strategy))
    options = from_values({name: value for name, value in choice.options.items() if name in known})
    return dataclasses.replace(entry, strategy=entry.strategy.updated(options.items))


def join(config: Config, lakes: dict[str, Format], entry: StreamConfig) -> Stream:
    """One stream of its parts. Raises Misfit and ConfigError, with everything that is wrong with it."""
    makers: dict[str, Callable[[], Any]] = {
        "strategy": lambda: build("strategies", entry.strategy),
        "writer": lambda: build("writers", entry.write),
        "source": lambda: _source(config, lakes, entry),
        "target": lambda: _target(entry),
    }
    made, problems = {}, Problems()
    for name, make in makers.items():
        with problems.kept():
            made[name] = make()
    problems.refuse()
    _refuse_misfits(config, lakes, entry, made)
    target: Target = made["target"]
    lake = lakes[target.lake]
    return Stream(
        name=entry.name,
        uid=entry.uid or stream_uid(entry.name, target),
        source=rescued_columns.rescuing(made["source"], entry.contract, lake, target, entry.key),
        source_name=source_name(entry),
        target=target,
        format=lake,
        strategy=made["strategy"],
        writer=made["writer"],
        key=entry.key,
        policies=Policies(
            verify=VerifyLevel(entry.verify),
            contract=entry.contract,
            layout=entry.layout,
            deletes=entry.deletes,
            maintenance=entry.maintenance,
            schedule=entry.schedule,
            checks=renamed([_rule(node, lakes, target) for node in entry.checks]),
        ),
    )


def _source(config: Config, lakes: dict[str, Format], entry: StreamConfig) -> Source:
    given: dict[str, Any] = {"connection": config.connection(entry.connection)} if entry.connection else {}
    if (database := entry.source.get("database")) is not None and database.text() in config.absent:
        raise config.absent[database.text()]
    given |= _wanted(
        plugin_of("sources", entry.source), lakes=lakes, folder=config.folder, connections=config.connections
    )
    source: Source = build("sources", entry.source, **given)
    return source


def _refuse_misfits(config: Config, lakes: Mapping[str, Format], entry: StreamConfig, made: Mapping[str, Any]) -> None:
    """Refuses parts that cannot work together. Raises Misfit and ConfigError, with every reason."""
    strategy, writer, target = made["strategy"], made["writer"], made["target"]
    problems = Problems()
    with problems.kept():
        flavour = _flavour(made["source"], entry.source)
        reasons = (
            *incompatibilities(strategy=strategy, writer=writer, key=entry.key, flavour=flavour, deletes=entry.deletes),
            *unread_columns(made["source"], entry, strategy, writer),
            *rescued_columns.incompatibilities(plugin_of("sources", entry.source), entry.contract),
            *column_backfill.incompatibilities(strategy, writer, entry.contract),
        )
        if reasons:
            raise Misfit(f"{entry.mark}: " + "; ".join(reasons), file=entry.mark.file, line=entry.mark.line)
    with problems.kept():
        refuse_shared(config, entry)
    for problem in lakes[target.lake].layout_problems(entry.layout):
        problems.found.append(entry.layout_mark.error(problem))
    for node in entry.checks:
        with problems.kept():
            _rule(node, dict(lakes), target)
    problems.refuse()


def unread_columns(source: Source, entry: StreamConfig, strategy: Strategy, writer: Writer) -> Iterator[str]:
    """A sentence for each column that the stream needs and its source is told to leave out."""
    selection = getattr(source, "selection", None)
    if isinstance(selection, ColumnSelection):
        order = (name for name in getattr(writer, "order_by", ()) if name not in strategy.cursor)
        yield from selection.refused({"key": entry.key, "strategy": strategy.cursor, "write": tuple(order)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stream's table is, known without its source."""

    name: str
    uid: str
    target: Target
    format: Format


def place(config: Config, lakes: Mapping[str, Format], name: str) -> Place | None:
    """The table of a stream that the project names; None for one that a pattern stands for, or that is not there."""
    entry = next((entry for entry in config.streams if entry.name == name and not entry.is_pattern), None)
    if entry is None:
        return None
    target = _target(entry)
    return Place(name=name, uid=entry.uid or stream_uid(name, target), target=target, format=lakes[target.lake])


def _flavour(source: Source, node: Node) -> Flavour:
    """What the source can be asked. Raises ConfigError where its connection is one that no rows are read from."""
    try:
        return flavour_of(source)
    except ConfigError as error:
        raise located(error, node.mark) from error


def _rule(node: Node, lakes: dict[str, Format], target: Target) -> Rule:
    return rule_of(node, **_wanted(plugin_of("checks", node), lakes=lakes, target=target))


def _wanted(plugin: type[Any], **values: Any) -> dict[str, Any]:
    """Those of the program's values that a plugin has a field for."""
    own = {field.name for field in dataclasses.fields(plugin) if field.metadata.get("given")}
    return {name: value for name, value in values.items() if name in own}


def _target(entry: StreamConfig) -> Target:
    """The table's name, of parts that every reader of the lake takes as they are."""
    mark = entry.mark.inside("target")
    for part in entry.target:
        if not part.isprintable() or part != part.strip() or not part:
            # PyIceberg takes blanks away, and no catalog keeps a zero byte.
            raise mark.error(f"the name {part!r} starts or ends with a space or contains unprintable characters")
        if "${" in part:
            raise mark.error(f"the name {part!r} contains `${{`, which Spark would replace with a variable")
    return Target(lake=entry.target[0], namespace=entry.target[1:-1], table=entry.target[-1])


def source_name(entry: StreamConfig) -> str:
    """`connection: relation`, for people."""
    named = (entry.source.get(key) for key in INFERRED_KINDS if key not in ("query", "envelope"))
    relation = next((node.text() for node in named if node is not None), "a query")
    return f"{entry.connection}: {relation}" if entry.connection else relation


def _expand(config: Config, entry: StreamConfig) -> Iterator[StreamConfig]:
    """One stream for each table that matches, in the order of their names."""
    table = entry.source.get("table")
    if table is None or entry.connection is None:
        raise entry.mark.error("a name with * or ? needs a `source:` with a `table:` that also has one")
    lister = plugins.load("sources", entry.source.items["kind"].text())
    matches: Sequence[tuple[str | None, str]] = lister.tables(config.connection(entry.connection), table.text())
    if not matches:
        raise table.mark.error(f"no table matches {table.text()!r}")
    for schema, name in matches:
        parts = [part for part in (schema, name) if part]
        relation = Node(value=join_name(parts), mark=table.mark)
        yield dataclasses.replace(
            entry,
            name=_fill(entry.name, name),
            source=entry.source.updated({"table": relation}),
            target=tuple(_replaced(entry.target, schema=schema or "main", table=name)),
        )


def _fill(pattern: str, table: str) -> str:
    return pattern.replace("*", table).replace("?", table)


def _replaced(parts: Iterable[str], *, schema: str, table: str) -> Iterator[str]:
    for part in parts:
        yield part.replace("{schema}", schema).replace("{table}", table)
