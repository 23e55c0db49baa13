"""Builds the streams of a project: creates plugins, expands patterns, joins and checks the parts.

Opens a source only to expand a pattern. Parts that cannot work together are refused.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.config import Config, Node, StreamConfig, build
from tidegate.config.checks import rule_of
from tidegate.config.defaults import INFERRED_KINDS
from tidegate.config.hooks import hook_of
from tidegate.config.nodes import Problems, from_values
from tidegate.config.options import fields, located, plugin_of
from tidegate.config.targets import refuse_reserved, shared_target
from tidegate.core.bounds import BoundRequest
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.compatibility import incompatibilities
from tidegate.core.flavours import Flavour, flavour_of
from tidegate.core.ids import Connection, Target, split_name, stream_uid
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.policies.rules import Rule
from tidegate.core.ports.format import Format
from tidegate.core.ports.hook import StatedHook
from tidegate.core.ports.source import Probe, Source, SparkProvider
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import Schema
from tidegate.core.slices import Files, Slice
from tidegate.core.spelling import suggest
from tidegate.engine import column_backfill, rescued_columns, retention, type_changes, whole_proof
from tidegate.engine.assemble import locations, patterns
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.maintenance import measured
from tidegate.engine.quality.rules import renamed
from tidegate.engine.replication_slot import refuse_shared
from tidegate.engine.stream import LoadsTable, Policies, Stream, VerifyLevel
from tidegate.errors import ConfigError, Incompatible
from tidegate.registry.values import StreamStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def formats(config: Config) -> dict[str, Format]:
    """The lakes of a project, by name; each knows which tables lie elsewhere than it would put them.

    Raises:
        ConfigError: a location that a table cannot have.
    """
    made = {name: build("formats", node, name=name, folder=config.folder) for name, node in config.lakes.items()}
    return locations.placed(config, made)


def loads_table(config: Config, lakes: Mapping[str, Format]) -> LoadsTable | None:
    """The table that tells of runs; None where the project keeps none."""
    if config.loads_table is None:
        return None
    lake, *namespace, table = config.loads_table
    return LoadsTable(format=lakes[lake], target=Target(lake=lake, namespace=tuple(namespace), table=table))


@dataclass(frozen=True, slots=True)
class Refused(Source[Probe]):
    """The source of a stream that cannot be loaded, beside others that can."""

    error: ConfigError

    def refuse_urls(self) -> None:
        """Raises the error."""
        raise self.error

    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> NoReturn:  # noqa: ARG002
        """Raises the error."""
        raise self.error

    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> NoReturn:  # noqa: ARG002
        """Raises the error."""
        raise self.error

    def jars(self) -> tuple[str, ...]:
        """None."""
        return ()

    def spark_conf(self) -> Mapping[str, str]:
        """None."""
        return {}


def streams(config: Config, lakes: dict[str, Format], choice: Choice) -> list[Stream]:
    """The streams that are meant, in the order of the project.

    Raises:
        ConfigError: a name that no stream has, or no stream is meant.
        Incompatible: parts that cannot work together; all reasons are in the message.
    """
    every = [one for entry in config.streams if _may_be(entry, choice) for one in patterns.expanded(config, entry)]
    locations.refuse_nested(every, config, lakes)
    meant = choice.of(every)
    twice = next((one for one in meant if [each.name for each in every].count(one.name) > 1), None)
    if twice is not None:
        raise twice.mark.error(f"several patterns stand for the stream {twice.name!r}; give each its own names")
    found = [join(config, lakes, _overridden(entry, choice)) for entry in meant]
    refuse_shared_targets(config, found)
    refuse_strange_options(choice, [stream.strategy for stream in found])
    return found


def _may_be(entry: StreamConfig, choice: Choice) -> bool:
    """Whether the entry can be, or stand for, a stream that is meant; a source is not asked in vain."""
    return not entry.is_pattern or choice.may_expand(entry.name)


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


def _overridden(entry: StreamConfig, choice: Choice) -> StreamConfig:
    """The stream with the options of this call that its strategy has."""
    if not choice.options:
        return entry
    known = fields(plugin_of("strategies", entry.strategy))
    options = from_values({name: value for name, value in choice.options.items() if name in known})
    return dataclasses.replace(entry, strategy=entry.strategy.updated(options.items))


def join(config: Config, lakes: dict[str, Format], entry: StreamConfig) -> Stream:
    """One stream of its parts; one that is refused has a source that says so to whoever asks it.

    Raises Incompatible and ConfigError, with everything that is wrong with it.
    """
    makers: dict[str, Callable[[], Any]] = {
        "strategy": lambda: build("strategies", entry.strategy),
        "writer": lambda: build("writers", entry.write),
        "source": lambda: Refused(entry.refused) if entry.refused is not None else _source(config, lakes, entry),
        "target": lambda: _target(entry),
    }
    made, problems = {}, Problems()
    for name, make in makers.items():
        with problems.kept():
            made[name] = make()
    problems.refuse()
    if entry.refused is None:
        _refuse_parts(config, lakes, entry, made)
    target: Target = made["target"]
    lake = lakes[target.lake]
    uid = entry.uid or stream_uid(entry.name, target)
    joined = Stream(
        name=entry.name,
        uid=uid,
        source=rescued_columns.rescuing(made["source"], entry.contract, lake, target, entry.key, uid=uid),
        source_name=source_name(entry),
        target=target,
        format=lake,
        strategy=made["strategy"],
        writer=made["writer"],
        key=entry.key,
        policies=Policies(
            verify=VerifyLevel(entry.verify.level),
            full_every=entry.verify.full_every,
            contract=entry.contract,
            layout=entry.layout,
            deletes=entry.deletes,
            maintenance=entry.maintenance,
            schedule=entry.schedule,
            checks=renamed([_rule(config, node, lakes, target) for node in entry.checks]),
            retain=entry.retain,
            measured_by=_measured_by(config, entry),
            after_publish=tuple(_hook(config, node) for node in entry.after_publish),
        ),
        loads=loads_table(config, lakes),
    )
    if entry.refused is not None:
        return joined
    if reasons := (*retention.incompatibilities(joined), *whole_proof.incompatibilities(joined)):
        raise Incompatible(f"{entry.mark}: " + "; ".join(reasons), file=entry.mark.file, line=entry.mark.line)
    return joined


def _measured_by(config: Config, entry: StreamConfig) -> Connection | None:
    """What runs the query that maintenance measures. Raises ConfigError where it cannot."""
    name, mark = entry.maintenance.measure_by, entry.mark.inside("maintenance").inside("measure_by")
    if name is None:
        return None
    if name not in config.connections:
        raise mark.error(f"{name!r} is not under `connections:`; {suggest(name, config.connections)}")
    connection = config.connection(name)
    if (problem := measured.refused(entry.target, connection)) is not None:
        raise mark.error(problem)
    return connection


def _source(config: Config, lakes: dict[str, Format], entry: StreamConfig) -> Source[Probe]:
    given: dict[str, Any] = {"connection": config.connection(entry.connection)} if entry.connection else {}
    if (database := entry.source.get("database")) is not None and database.text() in config.absent:
        raise config.absent[database.text()]
    given |= _wanted(
        plugin_of("sources", entry.source),
        lakes=lakes,
        folder=config.folder,
        connections=config.connections,
        stream=entry.name,
        key=entry.key,
        increments=Files in getattr(plugin_of("strategies", entry.strategy), "reads", ()),
    )
    source: Source[Probe] = build("sources", entry.source, **given)
    return source


def _refuse_parts(config: Config, lakes: Mapping[str, Format], entry: StreamConfig, made: Mapping[str, Any]) -> None:
    """Refuses parts that cannot work together. Raises Incompatible and ConfigError, with every reason."""
    strategy, writer, target = made["strategy"], made["writer"], made["target"]
    problems = Problems()
    with problems.kept():
        flavour = _flavour(made["source"], entry.source)
        reasons = (
            *incompatibilities(strategy=strategy, writer=writer, key=entry.key, flavour=flavour, deletes=entry.deletes),
            *unread_columns(made["source"], entry, strategy, writer),
            *rescued_columns.incompatibilities(plugin_of("sources", entry.source), entry.contract),
            *column_backfill.incompatibilities(strategy, writer, entry.contract),
            *type_changes.incompatibilities(strategy, writer, entry.deletes, entry.contract),
        )
        if reasons:
            raise Incompatible(f"{entry.mark}: " + "; ".join(reasons), file=entry.mark.file, line=entry.mark.line)
    with problems.kept():
        refuse_shared(config, entry)
    for problem in lakes[target.lake].layout_problems(entry.layout):
        problems.found.append(entry.layout_mark.error(problem))
    for problem in lakes[target.lake].maintenance_problems(entry.maintenance):
        problems.found.append(entry.mark.inside("maintenance").error(problem))
    for node in entry.checks:
        with problems.kept():
            _rule(config, node, dict(lakes), target)
    problems.refuse()


def unread_columns(source: Source[Probe], entry: StreamConfig, strategy: Strategy, writer: Writer) -> Iterator[str]:
    """A sentence for each column that the stream needs and its source is configured to leave out."""
    selection = getattr(source, "selection", None)
    if isinstance(selection, ColumnSelection):
        order = (name for name in getattr(writer, "order_by", ()) if name not in strategy.cursor)
        yield from selection.refused({"key": entry.key, "strategy": strategy.cursor, "write": tuple(order)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """Where a stream's table is, known without its source."""

    name: str
    uid: str
    target: Target
    format: Format


def place(config: Config, lakes: Mapping[str, Format], name: str) -> TableLocation | None:
    """The table of a stream that the project names; None for one that a pattern stands for, or that is not there."""
    entry = next((entry for entry in config.streams if entry.name == name and not entry.is_pattern), None)
    return None if entry is None else place_of(entry, lakes)


def place_of(entry: StreamConfig, lakes: Mapping[str, Format]) -> TableLocation:
    """The table of a stream that is no pattern."""
    target = _target(entry)
    uid = entry.uid or stream_uid(entry.name, target)
    return TableLocation(name=entry.name, uid=uid, target=target, format=lakes[target.lake])


def recorded_place(status: StreamStatus, lakes: Mapping[str, Format]) -> TableLocation | None:
    """The table of a stream as the registry knows it; None if its lake is not in the project any more."""
    lake, *namespace, table = split_name(status.target)
    if lake not in lakes:
        return None
    target = Target(lake=lake, namespace=tuple(namespace), table=table)
    return TableLocation(name=status.stream, uid=status.uid, target=target, format=lakes[lake])


def _flavour(source: Source[Probe], node: Node) -> Flavour:
    """What the source can be asked. Raises ConfigError where its connection is one that no rows are read from."""
    with located(node.mark):
        return flavour_of(source)


def _rule(config: Config, node: Node, lakes: dict[str, Format], target: Target) -> Rule:
    known = {"lakes": lakes, "target": target, "present": functools.partial(present, config)}
    return rule_of(node, config.redact, **_wanted(plugin_of("checks", node), **known))


def _hook(config: Config, node: Node) -> StatedHook:
    """One hook. Raises ConfigError with its line."""
    named = node.get("connection")
    with located(node.mark):
        given = _wanted(plugin_of("hooks", node), folder=config.folder)
        given |= {"connection": config.connection(named.text())} if named is not None else {}
        return hook_of(node, config.name, config.redact, **given)


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
    refuse_reserved(mark, entry.target)
    return Target(lake=entry.target[0], namespace=entry.target[1:-1], table=entry.target[-1])


def _named(node: Node) -> str:
    """What names a source; of a request its URL without the query."""
    url = node.get("url") if isinstance(node.value, dict) else None
    return node.text() if url is None else url.text().partition("?")[0]


UNNAMED = ("query", "envelope", "change_tracking")
"""What tells the kind of a source and names nothing."""


def source_name(entry: StreamConfig) -> str:
    """`connection: relation`, for people."""
    named = (entry.source.get(key) for key in INFERRED_KINDS if key not in UNNAMED)
    relation = next((_named(node) for node in named if node is not None), "a query")
    return f"{entry.connection}: {relation}" if entry.connection else relation


def present(config: Config, target: Target) -> tuple[str, ...]:
    """The conditions of the rows that are present, as Spark SQL; none if every row is.

    Raises:
        ConfigError: the options of the stream's writer are wrong.
    """
    entry = _loading(config, target)
    if entry is None:
        return ()
    writer: Writer = build("writers", entry.write)
    marked = (f"{DELETED_AT} IS NULL",) if entry.deletes.soft else ()
    return marked if writer.versions is None else (*marked, writer.current)


def _loading(config: Config, target: Target) -> StreamConfig | None:
    """The stream that loads a table: one that names it, else a pattern that may stand for it."""
    parts = (target.lake, *target.namespace, target.table)
    fits = (entry for entry in config.streams if entry.is_pattern and _fits(entry.target, parts))
    return next((entry for entry in config.streams if entry.target == parts), next(fits, None))


def _fits(stated: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if len(stated) != len(parts):
        return False
    wild = (re.sub(r"\{(table|schema)\}", "*", one) for one in stated)
    return all(fnmatch.fnmatchcase(part, one) for part, one in zip(parts, wild, strict=True))
