"""Loads and validates a project file. Opens nothing that the file names, and never shows a secret."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from tidegate.config import measured, secrets, trust
from tidegate.config.alerts import AlertOptions, read_alerts
from tidegate.config.environment import variables
from tidegate.config.nodes import Node, Problems, from_values, parse
from tidegate.config.options import KIND, check, plugin_of, read, without
from tidegate.config.paths import absolute_connection, absolute_path, absolute_url
from tidegate.config.profiles import merged
from tidegate.config.references import DEFAULTS, Absent, References
from tidegate.config.sections import ServiceOptions, SparkOptions, TelemetryOptions
from tidegate.config.state import EMBEDDED, LOCAL_CATALOGS, State
from tidegate.config.streams import StreamConfig, StreamReader, refuse_shared_uids
from tidegate.config.urls import ENCODE, unencoded
from tidegate.core.durations import duration
from tidegate.core.ids import Connection, split_name
from tidegate.errors import ConfigError

T = TypeVar("T")

FILE = "tidegate.yaml"
SECTIONS = (
    "registry",
    "lakes",
    "spark",
    "service",
    "keep_warm",
    "telemetry",
    "alerts",
    "loads_table",
    "connections",
    "defaults",
    "profiles",
    "streams",
)
LAKES: Mapping[str, Any] = {"lake": {}}


class Opening(TypedDict, total=False):
    """Keyword arguments of every way to open a project.

    `profile` is one of those under `profiles:`, such as `prod`, merged over the project. `trusted` lets the project run
    code, as `--trust-project` does.
    """

    profile: str | None
    trusted: bool


def same_project(*, profile: str | None, trusted: bool) -> list[str]:
    """The words by which another command opens a project in the same way, beside `--project`."""
    return [*(["--env", profile] if profile else []), *([trust.FLAG] if trusted else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole project; references resolved, paths absolute, every key known.

    Args:
        folder: what relative paths were resolved against.
        registry: the URL of the registry.
        lakes: by name, mappings with a `kind`, for `config.build("formats", …)`.
        absent: connections whose credentials are not there, and why; what opens no source goes on without them.
        secrets: what no output may hold.
        problems: what is wrong with the file, secrets masked; only of `inspect`. What is wrong is left out.
        profile: the profile that the project was loaded with; None without one.
        loads_table: the name of the table that tells of runs; None for none.
    """

    file: Path | None
    folder: Path
    registry: str = field(repr=False)
    lakes: Mapping[str, Node] = field(repr=False)
    spark: SparkOptions = field(repr=False)
    service: ServiceOptions = field(repr=False)
    telemetry: TelemetryOptions
    alerts: AlertOptions
    connections: Mapping[str, Connection]
    absent: Mapping[str, ConfigError] = field(repr=False)
    streams: tuple[StreamConfig, ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    problems: tuple[ConfigError, ...] = ()
    profile: str | None = None
    loads_table: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """What people know the project by: its folder, and the profile."""
        return f"{self.folder.name}@{self.profile}" if self.profile else self.folder.name

    def connection(self, name: str) -> Connection:
        """A connection that can be opened. Raises ConfigError where a variable or file that it refers to is absent."""
        if name in self.absent:
            raise self.absent[name]
        return self.connections[name]

    def redact(self, text: str) -> str:
        """The text without the project's secrets."""
        return secrets.redact(text, self.secrets)


def load(
    path: Path, *, profile: str | None = None, environ: Mapping[str, str] | None = None, trusted: bool = False
) -> Config:
    """The project of a file, or of the `tidegate.yaml` in a folder.

    Args:
        profile: one of those under `profiles:`, merged over the project.
        trusted: the file may run code, see `config.trust`; as `TIDEGATE_TRUST_PROJECT=1` of the process says, too.
        environ: the variables of the process; `.env` files beside the project add to them.

    Raises:
        ConfigError: with file, line and key; `context["more"]` holds what else is wrong.
    """
    return valid(inspect(path, profile=profile, environ=environ, trusted=trusted))


def inspect(
    path: Path, *, profile: str | None = None, environ: Mapping[str, str] | None = None, trusted: bool = False
) -> Config:
    """The same, with what is valid of a file that has problems, and all of these.

    Raises:
        ConfigError: a file cannot be read, or is not YAML; or there is no such profile.
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
    folder = file.parent.absolute()
    given = os.environ if environ is None else environ
    reader = _Reader(file=file, folder=folder, profile=profile, trusted=trusted or trust.by_variable(given))
    return reader.inspect(parse(text, str(file)), variables(folder, profile, given))


def from_dict(
    values: Mapping[str, Any],
    folder: Path,
    *,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    trusted: bool = False,
) -> Config:
    """The project of values with the same keys; relative paths resolve against `folder`. Raises ConfigError."""
    folder = folder.absolute()
    given = os.environ if environ is None else environ
    reader = _Reader(file=None, folder=folder, profile=profile, trusted=trusted or trust.by_variable(given))
    return valid(reader.inspect(from_values(values), variables(folder, profile, given)))


def valid(config: Config) -> Config:
    """The project, if nothing is wrong with it. Raises ConfigError, see `load`."""
    if not config.problems:
        return config
    first, *others = config.problems
    more = tuple(dict.fromkeys(other.message for other in others))
    raise type(first)(first.message, hint=first.hint, **{**first.context, "more": more})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """How a project is read: from where, with which profile, and whether it may run code."""

    file: Path | None
    folder: Path
    profile: str | None
    trusted: bool

    def inspect(self, root: Node, environ: Mapping[str, str]) -> Config:
        references = References(environ=environ, folder=self.folder)
        problems = Problems()
        with problems.kept():
            root.refuse_unknown(SECTIONS)
        root, own = merged(root, self.profile, self.folder, problems)
        root, absent = references.resolve_project(root, problems)
        hidden = secrets.collect(root, references.found)
        state = State(name=self.profile) if own and self.profile is not None else State()
        reader = _Project(root=root, file=self.file, folder=self.folder, absent=absent, problems=problems, state=state)
        config = dataclasses.replace(reader.read(hidden), profile=self.profile)
        if not self.trusted:
            checks = (check for each in config.streams for check in each.checks)
            hooks = (hook for each in config.streams for hook in each.after_publish)
            problems.found.extend(trust.refused(root, checks, hooks))
        problems.found.extend(measured.refused(root, trusted=self.trusted))
        in_order = sorted(problems.found, key=lambda problem: problem.context.get("line") or 0)
        found = {problem.message: _masked(problem, hidden) for problem in in_order}
        return dataclasses.replace(config, problems=tuple(found.values()))


def _masked(problem: ConfigError, hidden: tuple[str, ...]) -> ConfigError:
    texts = (secrets.redact(text, hidden) for text in (problem.message, problem.hint))
    return type(problem)(next(texts), hint=next(texts), **problem.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Project:
    """Reads the sections one by one and keeps every problem, so that one run shows them all."""

    root: Node
    file: Path | None
    folder: Path
    absent: Absent
    problems: Problems
    state: State

    def read(self, hidden: tuple[str, ...]) -> Config:
        registry = self.keep(self.registry, default="")
        lakes = self.each("lakes", self.lake, default=LAKES)
        connections = self.each("connections", self.connection)
        spark = self.keep(lambda: _spark(self.section("spark")), default=SparkOptions())
        service = self.keep(self.service, default=ServiceOptions())
        nothing = TelemetryOptions()
        telemetry = self.keep(lambda: read(TelemetryOptions, self.section("telemetry")), default=nothing)
        defaults, joined = self.section("defaults"), self.section("connections")
        reader = StreamReader(
            folder=self.folder, defaults=defaults, connections=joined, lakes=self.section("lakes", LAKES)
        )
        whole = self.each("streams", reader.stream)
        # With a connection or a lake that is wrong, which is reported already, a stream cannot be made.
        streams = {name: one for name, one in whole.items() if one.known_to(connections, lakes)}
        with self.problems.kept():
            given = self.root.get("streams")
            if (given is None or given.value in ({}, None)) and not self.root.misspelt("streams", SECTIONS):
                raise self.root.mark.error("needs `streams:` with at least one stream")
        with self.problems.kept():
            refuse_shared_uids(streams.values())
        return Config(
            file=self.file,
            folder=self.folder,
            registry=registry,
            lakes=lakes,
            spark=spark,
            service=service,
            telemetry=telemetry,
            alerts=self.keep(lambda: read_alerts(self.section("alerts"), self.absent.channels), default=AlertOptions()),
            connections=connections,
            absent=self.absent.connections,
            streams=tuple(streams.values()),
            secrets=hidden,
            loads_table=self.keep(lambda: self.loads_table(lakes, streams.values()), default=None),
        )

    def section(self, name: str, default: Mapping[str, Any] | None = None) -> Node:
        return self.root.get(name) or from_values(default or {}, (name,))

    def keep(self, work: Callable[[], T], *, default: T) -> T:
        with self.problems.kept():
            return work()
        return default

    def each(
        self, section: str, reader: Callable[[str, Node], T], default: Mapping[str, Any] | None = None
    ) -> dict[str, T]:
        found: dict[str, T] = {}
        nothing: dict[str, Node] = {}
        entries = self.keep(lambda: self.section(section, default).items, default=nothing)
        for name, node in entries.items():
            with self.problems.kept():
                found[name] = reader(name, node)
        return found

    def service(self) -> ServiceOptions:
        options = read(ServiceOptions, self.section("service"))
        node = self.root.get("keep_warm")
        if node is None:
            return options
        try:
            return dataclasses.replace(options, keep_warm=duration(node.value))
        except ValueError as error:
            raise node.mark.error(f"{error}, such as `keep_warm: 30m`") from error

    def registry(self) -> str:
        node = self.root.get("registry")
        url = node.text() if node else self.state.registry
        if "://" not in url:
            raise self.section("registry").mark.error("must be a URL: sqlite:///… or postgresql://…")
        refuse_unencoded(self.section("registry"), url)
        return absolute_url(url, self.folder)

    def loads_table(self, lakes: Container[str], streams: Iterable[StreamConfig]) -> tuple[str, ...] | None:
        node = self.root.get("loads_table")
        if node is None:
            return None
        try:
            parts = split_name(node.text())
        except ValueError as error:
            raise node.mark.error(str(error)) from error
        if len(parts) < 3 or parts[0] not in lakes:
            raise node.mark.error("must be a table of one of `lakes:`, such as `lake.ops.tidegate_loads`")
        if (other := next((one.name for one in streams if one.target == parts), None)) is not None:
            raise node.mark.error(f"is the table of stream {other!r}; give it a table of its own")
        return parts

    def lake(self, name: str, node: Node) -> Node:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name == "spark_catalog":
            raise node.mark.error("must consist of letters, digits and _ (it becomes a catalog name)")
        kind = node.get("format") or Node(value="iceberg", mark=node.mark)
        ready = without(node, "format").updated({KIND: kind})
        catalog, warehouse = node.get("catalog"), node.get("warehouse")
        kind_of = catalog.get("type") if catalog else None
        if kind_of is None or kind_of.value in LOCAL_CATALOGS:
            warehouse = warehouse or Node(value=self.state.warehouse, mark=node.mark)
            path = absolute_path(warehouse.text(), self.folder)
            ready = ready.updated({"warehouse": dataclasses.replace(warehouse, value=path)})
        if self.state.name is not None and kind.value == "iceberg" and (kind_of is None or kind_of.value == EMBEDDED):
            catalog = self.state.catalog_of(catalog or Node(value={}, mark=node.mark.inside("catalog")))
        if catalog is not None:
            for each in catalog.items.values():
                refuse_unencoded(each, each.value)
            ready = ready.updated({"catalog": _absolute_urls(catalog, self.folder)})
        check(plugin_of("formats", ready), without(ready, KIND), ("name", "folder"))
        return ready

    def connection(self, name: str, node: Node) -> Connection:
        if name in self.absent.connections:
            return Connection(name=name)
        if isinstance(node.value, str):
            node = Node(value={"url": node}, mark=node.mark)
        connection = read(Connection, without(node, DEFAULTS), name=name)
        if connection.kafka is not None and not connection.url:
            return connection
        of_brokers = (connection.kafka, connection.options, connection.registry, connection.plain_http)
        if "://" not in connection.url or any(of_brokers):
            raise node.mark.error("needs a `url:` such as postgresql://user@host/database or sqlite:///file.db")
        refuse_unencoded(node.get("url") or node, connection.url)
        return absolute_connection(connection, self.folder)


def _spark(node: Node) -> SparkOptions:
    options = read(SparkOptions, node)
    if options.master and options.remote:
        raise node.mark.error("has both `master:` and `remote:`; set only one of them")
    texts = {name: str(value) for name, value in options.conf.items()}
    # Spark's words for booleans are small letters.
    words = {name: str(value).lower() for name, value in options.conf.items() if isinstance(value, bool)}
    return dataclasses.replace(options, conf={**texts, **words})


def refuse_unencoded(node: Node, url: object) -> None:
    """Refuses a URL of which a driver would take a part of the password for the host, and show it."""
    if isinstance(url, str) and unencoded(url):
        raise node.mark.error("the user or password has a character that a URL cannot hold", hint=ENCODE)


def _absolute_urls(catalog: Node, folder: Path) -> Node:
    def absolute(node: Node) -> Node:
        value = node.value
        return dataclasses.replace(node, value=absolute_url(value, folder)) if isinstance(value, str) else node

    return catalog.updated({key: absolute(node) for key, node in catalog.items.items()})
