"""Certifies one server: refuses a schema that is not empty, tries every case, and removes what it created."""

from __future__ import annotations

import hashlib
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tidegate import config, extras, plugins
from tidegate.api import Project
from tidegate.core.ids import Connection, join_name
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import BIGINT, Column
from tidegate.core.server import Server
from tidegate.errors import ConfigError, TidegateError
from tidegate.sources.database.source import dialect_of
from tidegate_scenarios import table_logs
from tidegate_scenarios.certification import Certification, Sample, Scratch
from tidegate_scenarios.fault_cases import try_faults
from tidegate_scenarios.marker import NAME, SCHEMA, Marker, marked
from tidegate_scenarios.report import Case, Report
from tidegate_scenarios.source_tables import PREFIX, SourceTable
from tidegate_scenarios.strategy_cases import number, order, try_strategies
from tidegate_scenarios.streams import CLOCK, CONNECTION, EVENTS, ORDERS, TYPES, streams
from tidegate_scenarios.trial import Trial, project_values
from tidegate_scenarios.type_cases import try_types

GROUP, DATABASES = "certifications", "tidegate_scenarios.databases"
PROBE = f"{PREFIX}probe"
FULL = {"strategy": "full", "write": "replace", "target": "lake.certify.any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A schema that can be certified in.

    Args:
        missing: it does not exist; it is created, and removed in the end.
        left: what an earlier certification left in it.
        made: what its marker proves to be the kit's, in the order of creation.
    """

    connection: Connection
    dialect: Connectable
    kit: Certification
    server: Server
    schema: str
    missing: bool
    left: tuple[str, ...]
    made: tuple[str, ...]
    redact: Callable[[str], str]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are created."""
        return (TYPES, ORDERS, *([EVENTS] if self.kit.identity else []), PROBE)

    @property
    def outside(self) -> tuple[str, ...]:
        """What may be done outside of the schema, for people."""
        return tuple(log.outside for log in self.kit.logs)


def place_of(url: str, schema: str | None = None) -> Place:
    """Looks at the schema; creates nothing.

    Args:
        url: may refer to variables of the environment, as in a project: `${PASSWORD}`.

    Raises:
        ConfigError: no certification of this kind of database, or the schema holds what
            no marker proves to be the kit's.
        SourceUnavailable: the server refuses the login, or does not answer.
    """
    stream = {"source": {"connection": CONNECTION, "table": ORDERS}, **FULL}
    values = {**project_values("", {"any": stream}), "connections": {CONNECTION: {"url": url}}}
    settings = config.from_dict(values, Path(), trusted=True)
    connection = settings.connection(CONNECTION)
    dialect = dialect_of(connection)
    kit = certification_of(dialect.kind)
    if kit is None:
        raise _unknown(dialect.kind)
    with closing(kit.open(connection, schema)) as scratch:
        server = dialect.server(scratch.execute)
        found = scratch.contents()
        made = marked(kit, dialect, scratch, found or ())
    if server is None:
        raise _unknown(dialect.kind)
    foreign = [name for name in found or () if name not in made]
    if foreign:
        raise ConfigError(
            f"schema {scratch.schema} is not empty: it has {join_name(foreign[:1])}"
            + (f" and {len(found or ()) - 1} more" if len(found or ()) > 1 else ""),
            hint="Name a schema that is empty or does not exist: `--schema NAME`.",
        )
    return Place(
        connection=connection,
        dialect=dialect,
        kit=kit,
        server=server,
        schema=scratch.schema,
        missing=found is None,
        left=found or (),
        made=made,
        redact=settings.redact,
    )


def _unknown(kind: str) -> ConfigError:
    return ConfigError(
        f"nothing says how {kind} is certified",
        hint="docs/extending/add-a-database.md says what has to be offered for it.",
    )


def certification_of(kind: str) -> Certification | None:
    """What the kit writes to databases of a kind; None where nobody says. Raises EnvironmentMissing (no driver)."""
    if kind not in plugins.names(GROUP, DATABASES):
        return None
    found: Certification = plugins.load(GROUP, kind, DATABASES)()
    return found


def certify(place: Place, tell: Callable[[Case], None], removed: Callable[[tuple[str, ...]], None]) -> Report:
    """Tries every case. What it created is removed whatever happens, Ctrl-C included.

    Args:
        tell: is told of each case as it ends.
        removed: is told in the end what could not be removed, as a rule nothing.

    Raises:
        ConfigError: an earlier certification left something; the user may not create a schema.
    """
    if place.left:
        raise ConfigError(
            f"schema {place.schema} holds what an earlier certification left: {', '.join(place.left)}",
            hint="`tidegate certify URL --clean --yes` removes it, with the same `--schema`.",
        )
    began, left, marker = time.monotonic(), tuple[str, ...](), Marker()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tidegate-certify-") as folder,
            _trial(place, Path(folder), tell, marker) as trial,
        ):
            for tries, group in ((try_types, "types"), (try_strategies, "strategies"), (try_faults, "faults")):
                with trial.guarded(group, "the whole group"):
                    tries(trial)
            cases, versions = tuple(trial.cases), _versions(place)
    finally:
        left = _cleaned(place, marker)
        removed(left)
    return Report(
        dialect=place.dialect.kind,
        server=place.server,
        versions=versions,
        date=datetime.now(UTC).date().isoformat(),
        seconds=time.monotonic() - began,
        cases=cases,
        vectors=_vectors(place.kit),
        left=left,
    )


def clean(place: Place, made: Sequence[str] | None = None) -> tuple[str, ...]:
    """Drops what certifications have created, and the schema if it was created for them.

    Args:
        made: what was created, in that order; None for what the marker of a killed certification says.

    Returns:
        What could not be dropped.
    """
    made = place.made if made is None else made
    with closing(place.kit.open(place.connection, place.schema)) as scratch:
        owned = ORDERS in made or ORDERS not in (scratch.contents() or ())
        logs = table_logs.stop(place.kit.logs, scratch, _instance(place)) if owned else ()
        markers = [name for name in made if NAME.fullmatch(name)]
        _drop(place, scratch, [name for name in reversed(made) if name not in markers])
        if {*(scratch.contents() or ())}.isdisjoint({*made} - {*markers}):
            _drop(place, scratch, markers)
        left = scratch.contents()
        if left == () and SCHEMA in made:
            scratch.remove()
    return (*(left or ()), *logs)


def _drop(place: Place, scratch: Scratch, names: Sequence[str]) -> None:
    there = scratch.contents() or ()
    for name in [name for name in names if name in there]:
        table = place.dialect.relation(*scratch.parts(name)).sql
        _attempt(scratch, place.kit.own[name][1] if name in place.kit.own else f"DROP TABLE {table}")


def _cleaned(place: Place, marker: Marker) -> tuple[str, ...]:
    """What a server that does not answer any more may still have is told as left."""
    try:
        return clean(place, marker.made)
    except TidegateError:
        return tuple(marker.made)


def _attempt(scratch: Scratch, statement: str) -> None:
    """What fails is still there, and is told as left."""
    try:
        scratch.execute(statement)
    except TidegateError:
        return


@contextmanager
def _trial(place: Place, folder: Path, tell: Callable[[Case], None], marker: Marker) -> Iterator[Trial]:
    """The schema with its empty tables, and a project with the streams that the database serves."""
    with closing(place.kit.open(place.connection, place.schema)) as scratch:
        if place.missing:
            scratch.create()
        marker.create(place.kit, place.dialect, scratch, schema=place.missing)
        for name, (statement, _) in place.kit.own.items():
            scratch.execute(statement)
            marker.record(name)
        samples = _available(place, scratch, marker)
        tables = {table.name: table for table in _tables(place, scratch, samples)}
        for table in tables.values():
            table.create()
            marker.record(table.name)
        logs, instance = place.kit.logs, _instance(place)
        refused = table_logs.start(logs, scratch, instance)
        _rehearse(tables[ORDERS])
        refused |= table_logs.wait([log for log in logs if log.name not in refused], scratch, instance)
        labels = {name: join_name(scratch.parts(name)) for name in (TYPES, ORDERS, EVENTS)}
        asked = streams(place.kit, samples, labels, instance)
        url = scratch.connection.url
        unsupported = {**_unsupported(url, asked, place, folder), **refused}
        serves = {name: stream for name, stream in asked.items() if name not in unsupported}
        with Project.from_dict(project_values(url, serves), folder=folder, trusted=True) as project:
            yield Trial(
                kit=place.kit,
                dialect=place.dialect,
                scratch=scratch,
                project=project,
                folder=folder,
                tables=tables,
                samples=samples,
                unsupported=unsupported,
                tell=tell,
            )


def _available(place: Place, scratch: Scratch, marker: Marker) -> tuple[Sample, ...]:
    """The types that the server has: versions and connectors differ. One table tells, unless it is refused."""
    name = place.dialect.relation(*scratch.parts(PROBE)).sql

    def creates(samples: Sequence[Sample]) -> bool:
        try:
            scratch.execute(place.kit.create_table(name, {"id": place.kit.integer, **_declared(samples)}))
        except TidegateError:
            return False
        marker.record(PROBE)
        scratch.execute(f"DROP TABLE {name}")
        return True

    samples = place.kit.samples
    return samples if creates(samples) else tuple(sample for sample in samples if creates([sample]))


def _declared(samples: Sequence[Sample]) -> dict[str, str]:
    return {sample.name: sample.declaration for sample in samples}


def _tables(place: Place, scratch: Scratch, samples: Sequence[Sample]) -> Iterator[SourceTable]:
    kit = place.kit
    parts: dict[str, Any] = {"kit": kit, "dialect": place.dialect, "scratch": scratch}
    yield SourceTable(name=TYPES, columns={"id": kit.integer, **_declared(samples)}, **parts)
    orders = {"id": kit.integer, "code": kit.text, "amount": kit.integer, CLOCK: kit.instant}
    yield SourceTable(name=ORDERS, columns=orders, clock=CLOCK, **parts)
    if kit.identity:
        yield SourceTable(name=EVENTS, columns={"id": kit.identity, "code": kit.text}, key="code", **parts)


def _rehearse(table: SourceTable) -> None:
    """Raises ConfigError where rows cannot be changed: the connectors of some servers only take inserts."""
    try:
        table.insert(order(table, 1, "a", 1))
        table.update(number(1), "amount", number(2))
        table.delete(number(1))
    except TidegateError as error:
        raise ConfigError(
            f"rows of schema {table.scratch.schema} cannot be inserted, updated and deleted: {error.message}",
            hint="Certify another catalog or schema, or another login.",
        ) from error


def _instance(place: Place) -> str:
    """A log is of a whole server or database: its name tells databases and schemas apart, and not certifications."""
    where = f"{place.connection.url.rpartition('@')[2]} {place.schema}"
    return f"{PREFIX}certify_{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def _unsupported(url: str, asked: dict[str, dict[str, Any]], place: Place, folder: Path) -> dict[str, str]:
    """By stream why `check` refuses it."""
    with Project.from_dict(project_values(url, asked), folder=folder, trusted=True) as project:
        found = {each.name: "; ".join(each.problems) for each in project.check() if each.errors}
    if not place.kit.identity:
        found.setdefault("sequence", "no column is counted up by the database")
    if place.dialect.quick([Column(name="id", type=BIGINT)]) is None:
        found.setdefault("types_prefilter", "the database has no hash of its own")
    return found


def _versions(place: Place) -> dict[str, str]:
    return {
        "tidegate": extras.version(),
        "spark": metadata.version("pyspark"),
        "python": platform.python_version(),
        place.kit.driver: place.kit.driver_version(),
        "jdbc": ", ".join(place.dialect.jars),
    }


def _vectors(kit: Certification) -> dict[str, dict[str, Any]]:
    return {
        sample.name: {"declaration": sample.declaration, "values": [(sql, repr(value)) for sql, value in sample.values]}
        for sample in kit.samples
    }
