"""Loads and validates a project file. Opens nothing that the file names, and never shows a secret."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from tidegate.config import secrets
from tidegate.config.checks import read_checks
from tidegate.config.defaults import complete
from tidegate.config.nodes import Mark, Node, from_values, parse
from tidegate.config.options import KIND, check, convert, plugin_of, read, without
from tidegate.config.paths import absolute_connection, absolute_path, absolute_source, absolute_url
from tidegate.config.references import DEFAULTS, References
from tidegate.config.sections import Contract, SparkOptions
from tidegate.config.targets import is_pattern, refuse_placeholders, shared_target
from tidegate.core.ids import Connection, split_name
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Layout
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

T = TypeVar("T")

FILE = "tidegate.yaml"
SECTIONS = ("registry", "lakes", "spark", "connections", "defaults", "streams")
REGISTRY = "sqlite:///.tidegate/registry.db"
WAREHOUSE = "./warehouse"
LOCAL_CATALOGS = ("sqlite", "postgresql", "spark")  # for the others a warehouse is optional, and may be a name
LAKES: Mapping[str, Any] = {"lake": {}}

Verify = Literal["none", "counts", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """One stream of the project file, with the defaults applied.

    Args:
        name: with `*` or `?` one stream for each table that matches (`is_pattern`).
        source, strategy, write: mappings with a `kind`, for `config.build`.
        target: the parts of the table's name; may hold `{table}` and `{schema}`.
        contract: the mode for each kind of change of columns.
        deletes: how rows that are gone leave the table.
        verify: `none`, `counts` or `moved`.
        checks: mappings with a `kind`, for `config.checks.rule_of`.
        uid: the identity that the project states; None for the one of name and target.
    """

    name: str
    source: Node
    target: tuple[str, ...]
    strategy: Node
    write: Node
    key: tuple[str, ...]
    contract: Mapping[str, str]
    layout: Layout
    deletes: Deletes
    maintenance: Maintenance
    schedule: Schedule | None
    verify: Verify
    uid: str | None
    mark: Mark
    layout_mark: Mark
    checks: tuple[Node, ...] = ()

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every table that matches."""
        return is_pattern(self.name)

    @property
    def connection(self) -> str | None:
        """The name of the source's connection; None for a source without one."""
        node = self.source.get("connection")
        return node.text() if node else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole project; references resolved, paths absolute, every key known.

    Args:
        folder: what relative paths were resolved against.
        registry: the URL of the registry.
        lakes: by name, mappings with a `kind`, for `config.build("formats", …)`.
        absent: connections whose credentials are not there, and why; what opens no source goes on without them.
        secrets: what no output may hold.
    """

    file: Path | None
    folder: Path
    registry: str = field(repr=False)
    lakes: Mapping[str, Node] = field(repr=False)
    spark: SparkOptions = field(repr=False)
    connections: Mapping[str, Connection]
    absent: Mapping[str, ConfigError] = field(repr=False)
    streams: tuple[StreamConfig, ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def connection(self, name: str) -> Connection:
        """A connection that can be opened. Raises ConfigError where a variable or file that it refers to is absent."""
        if name in self.absent:
            raise self.absent[name]
        return self.connections[name]

    def redact(self, text: str) -> str:
        """The text without the project's secrets."""
        return secrets.redact(text, self.secrets)


def load(path: Path, *, environ: Mapping[str, str] | None = None) -> Config:
    """The project of a file, or of the `tidegate.yaml` in a folder.

    Raises:
        ConfigError: with file, line and key; `context["more"]` holds what else is wrong.
    """
    file = path if path.suffix in (".yaml", ".yml") and not path.is_dir() else path / FILE
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no project file {file}",
            hint="Create one with `tidegate init`, or name its folder with `--project DIR`.",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not a UTF-8 text file") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint="Correct its permissions.") from error
    return _load(parse(text, str(file)), file=file, folder=file.parent.absolute(), environ=environ)


def from_dict(values: Mapping[str, Any], folder: Path, *, environ: Mapping[str, str] | None = None) -> Config:
    """The project of values with the same keys; relative paths resolve against `folder`. Raises ConfigError."""
    return _load(from_values(values), file=None, folder=folder.absolute(), environ=environ)


def _load(root: Node, *, file: Path | None, folder: Path, environ: Mapping[str, str] | None) -> Config:
    references = References(environ=os.environ if environ is None else environ, folder=folder)
    root.refuse_unknown(SECTIONS)
    root, absent = references.resolve_project(root)
    hidden = secrets.collect(root, references.found)
    problems: list[ConfigError] = []
    config = _Project(root=root, file=file, folder=folder, absent=absent, problems=problems).read(hidden)
    if problems:
        raise _first(problems, hidden)
    return config


def _first(problems: list[ConfigError], hidden: tuple[str, ...]) -> ConfigError:
    texts = [secrets.redact(problem.message, hidden) for problem in problems]
    first = problems[0]
    hint = secrets.redact(first.hint, hidden)
    return type(first)(texts[0], hint=hint, **{**first.context, "more": tuple(dict.fromkeys(texts[1:]))})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Project:
    """Reads the sections one by one and keeps every problem, so that one run shows them all."""

    root: Node
    file: Path | None
    folder: Path
    absent: Mapping[str, ConfigError]
    problems: list[ConfigError]

    def read(self, hidden: tuple[str, ...]) -> Config:
        registry = self.keep(self.registry, default="")
        lakes = self.each("lakes", self.lake, default=LAKES)
        connections = self.each("connections", self.connection)
        spark = self.keep(lambda: _spark(self.section("spark")), default=SparkOptions())
        defaults = self.section("defaults")
        streams = self.each(
            "streams", lambda name, node: self.stream(name, complete(node, self.defaults_of(node, defaults)))
        )
        if "streams" not in self.root.items or self.root.items["streams"].value in ({}, None):
            self.problems.append(self.root.mark.error("needs `streams:` with at least one stream"))
        self.keep(lambda: _refuse_twins(streams.values()), default=None)
        return Config(
            file=self.file,
            folder=self.folder,
            registry=registry,
            lakes=lakes,
            spark=spark,
            connections=connections,
            absent=self.absent,
            streams=tuple(streams.values()),
            secrets=hidden,
        )

    def section(self, name: str, default: Mapping[str, Any] | None = None) -> Node:
        return self.root.get(name) or from_values(default or {}, (name,))

    def keep(self, work: Callable[[], T], *, default: T) -> T:
        try:
            return work()
        except ConfigError as problem:
            self.problems.append(problem)
            return default

    def each(
        self, section: str, reader: Callable[[str, Node], T], default: Mapping[str, Any] | None = None
    ) -> dict[str, T]:
        found: dict[str, T] = {}
        nothing: dict[str, Node] = {}
        entries = self.keep(lambda: self.section(section, default).items, default=nothing)
        for name, node in entries.items():
            try:
                found[name] = reader(name, node)
            except ConfigError as problem:
                self.problems.append(problem)
        return found

    def defaults_of(self, stream: Node, defaults: Node) -> Node:
        """The project's defaults below those of the stream's connection."""
        source = stream.get("source") or defaults.get("source")
        name = source.get("connection") if source is not None and isinstance(source.value, dict) else None
        entry = self.section("connections").items.get(str(name.value)) if name is not None else None
        own = entry.get(DEFAULTS) if entry is not None and isinstance(entry.value, dict) else None
        return defaults.updated(own.items) if own is not None else defaults

    def registry(self) -> str:
        node = self.root.get("registry")
        url = node.text() if node else REGISTRY
        if "://" not in url:
            raise self.section("registry").mark.error("must be a URL: sqlite:///… or postgresql://…")
        return absolute_url(url, self.folder)

    def lake(self, name: str, node: Node) -> Node:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name == "spark_catalog":
            raise node.mark.error("must consist of letters, digits and _ (it becomes a catalog name)")
        kind = node.get("format") or Node(value="iceberg", mark=node.mark)
        ready = without(node, "format").updated({KIND: kind})
        catalog, warehouse = node.get("catalog"), node.get("warehouse")
        kind_of = catalog.get("type") if catalog else None
        if kind_of is None or kind_of.value in LOCAL_CATALOGS:
            warehouse = warehouse or Node(value=WAREHOUSE, mark=node.mark)
            path = absolute_path(warehouse.text(), self.folder)
            ready = ready.updated({"warehouse": dataclasses.replace(warehouse, value=path)})
        if catalog is not None:
            ready = ready.updated({"catalog": _absolute_urls(catalog, self.folder)})
        check(plugin_of("formats", ready), without(ready, KIND), ("name", "folder"))
        return ready

    def connection(self, name: str, node: Node) -> Connection:
        if name in self.absent:
            return Connection(name=name)
        if isinstance(node.value, str):
            node = Node(value={"url": node}, mark=node.mark)
        connection = read(Connection, without(node, DEFAULTS), name=name)
        if connection.kafka is not None and not connection.url:
            return connection
        if "://" not in connection.url or connection.kafka or connection.options or connection.registry:
            raise node.mark.error("needs a `url:` such as postgresql://user@host/database or sqlite:///file.db")
        return absolute_connection(connection, self.folder)

    def stream(self, name: str, node: Node) -> StreamConfig:
        if not name.strip():
            raise node.mark.error("needs a name")
        target = _target(name, node)
        lakes = self.section("lakes", LAKES).items
        if target[0] not in lakes:
            mark = node.at(["target"]).mark
            raise mark.error(f"names the lake {target[0]!r}, which is not under `lakes:`; {suggest(target[0], lakes)}")
        self.refuse_stranger(node.items["source"])
        node = node.updated({"source": absolute_source(node.items["source"], self.folder)})
        for group, key in (("sources", "source"), ("strategies", "strategy"), ("writers", "write")):
            part = node.items[key]
            check(plugin_of(group, part), without(part, KIND))
        layout = node.get("layout") or Node(value={}, mark=node.mark.inside("layout"))
        contract = read(Contract, node.get("contract") or Node(value={}, mark=node.mark.inside("contract")))
        return StreamConfig(
            name=name,
            source=node.items["source"],
            target=target,
            strategy=node.items["strategy"],
            write=node.items["write"],
            key=_key(node),
            contract=dataclasses.asdict(contract),
            layout=read(Layout, layout),
            layout_mark=layout.mark,
            deletes=read(Deletes, node.get("deletes") or Node(value={}, mark=node.mark.inside("deletes"))),
            maintenance=read(Maintenance, node.get("maintenance") or Node(value={}, mark=node.mark)),
            schedule=read(Schedule, when) if (when := node.get("schedule")) else None,
            verify=convert(Verify, node.items["verify"]) if node.get("verify") else "moved",
            uid=_uid(node),
            mark=node.mark,
            checks=read_checks(node.get("checks")),
        )

    def refuse_stranger(self, source: Node) -> None:
        """Refuses a connection that the project does not have."""
        node = source.get("connection")
        known = self.section("connections").items
        if node is not None and node.text() not in known:
            raise node.mark.error(f"{node.text()!r} is not under `connections:`; {suggest(node.text(), known)}")


def _target(name: str, node: Node) -> tuple[str, ...]:
    target = node.items["target"]
    if isinstance(target.value, list):
        parts = convert(tuple[str, ...], target)
    else:
        try:
            parts = split_name(target.text())
        except ValueError as error:
            raise target.mark.error(str(error)) from error
    if len(parts) < 3 or not all(parts):
        raise target.mark.error("must have the form lake.schema.table")
    if isinstance(target.value, str) or is_pattern(name):
        refuse_placeholders(target.mark, parts, filled=is_pattern(name))
    return tuple(parts)


def _key(node: Node) -> tuple[str, ...]:
    if node.get("key") is None:
        return ()
    key: tuple[str, ...] = convert(tuple[str, ...], node.items["key"])
    twice = next((name for name in key if key.count(name) > 1), None)
    if twice is not None:
        raise node.items["key"].mark.error(f"names {twice!r} twice; write each column once")
    return key


def _uid(node: Node) -> str | None:
    uid = node.get("uid")
    if uid is None:
        return None
    # No underscore: a stream's branches are found by its uid followed by one.
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", uid.text()):
        raise uid.mark.error("must be 1 to 64 letters, digits and hyphens")
    return uid.text()


def _spark(node: Node) -> SparkOptions:
    options = read(SparkOptions, node)
    if options.master and options.remote:
        raise node.mark.error("has both `master:` and `remote:`; set only one of them")
    texts = {name: str(value) for name, value in options.conf.items()}
    # Spark's words for booleans are small letters.
    words = {name: str(value).lower() for name, value in options.conf.items() if isinstance(value, bool)}
    return dataclasses.replace(options, conf={**texts, **words})


def _absolute_urls(catalog: Node, folder: Path) -> Node:
    def absolute(node: Node) -> Node:
        value = node.value
        return dataclasses.replace(node, value=absolute_url(value, folder)) if isinstance(value, str) else node

    return catalog.updated({key: absolute(node) for key, node in catalog.items.items()})


def _refuse_twins(streams: Iterable[StreamConfig]) -> None:
    """Refuses two streams that would be taken for one, by the same stated uid, or that would write to one table."""
    streams = list(streams)
    counted = Counter(stream.uid for stream in streams if stream.uid)
    for stream in streams:
        if stream.uid and (counted[stream.uid] > 1 or stream.is_pattern):
            raise stream.mark.inside("uid").error(f"the uid {stream.uid!r} is used by more than one stream")
    first: dict[tuple[str, ...], StreamConfig] = {}
    for stream in streams:
        if not stream.is_pattern and (other := first.setdefault(stream.target, stream)) is not stream:
            raise shared_target(stream.mark, stream.target, other.name)
