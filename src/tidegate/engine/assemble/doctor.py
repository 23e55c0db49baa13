"""Implements `tidegate doctor`: tests each part that a run needs, and says how to repair it.

Never starts Spark, writes to a table or prints a secret.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate import extras
from tidegate.config import Config
from tidegate.core.display import Shown, counted
from tidegate.core.ids import Target
from tidegate.core.ports.format import Format
from tidegate.engine import certificates, replication_slot
from tidegate.engine.assemble import assemble
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.stream import Stream
from tidegate.errors import EnvironmentMissing, Incompatible, SourceError, TidegateError
from tidegate.registry.store import Registry

NOBODY = "doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Shown):
    """One thing that a run needs: `ok`, or what is wrong and the command that fixes it."""

    name: str
    ok: bool
    detail: str
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def examine(config: Config, lakes: Mapping[str, Format], *, fetch: Callable[[str], None] | None) -> list[Finding]:
    """Everything that a run of this project needs, in the order in which a run needs it.

    Args:
        fetch: fetch what is missing, and give it a line for each step; None to fetch nothing.
    """
    return list(_examine(config, lakes, fetch=fetch))


def _examine(config: Config, lakes: Mapping[str, Format], *, fetch: Callable[[str], None] | None) -> Iterator[Finding]:
    yield _finding("registry", lambda: _registry(config))
    for name, lake in lakes.items():
        yield _finding(f"lake {name}", lambda lake=lake, name=name: _lake(lake, name))  # type: ignore[misc]
        yield _finding(f"warehouse of {name}", lambda name=name: _warehouse(config, name))  # type: ignore[misc]
    try:
        streams = assemble.streams(config, dict(lakes), Choice())
    except TidegateError as error:
        streams = []
        yield Finding(name="streams", ok=False, detail=error.message, hint=error.hint)
    for name, target in {stream.target.lake: stream.target for stream in streams}.items():
        yield from _refusals(lakes[name], target)
    for stream in streams:
        yield _finding(f"source of {stream.name}", lambda stream=stream: _source(stream))  # type: ignore[misc]
        if _has_slot(stream):
            yield _finding(f"slot of {stream.name}", lambda stream=stream: _slot(stream))  # type: ignore[misc]
    yield from _uncertified(config)
    if config.spark.remote:
        yield _finding("spark", _connect_client)
        return
    yield _finding("java", _java)
    sources = (jar for stream in streams for jar in stream.source.jars())
    jars = tuple(dict.fromkeys((*sources, *(jar for lake in lakes.values() for jar in lake.jars()))))
    yield _finding("jars", lambda: _jars(jars, fetch=fetch))


def _finding(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, ok=True, detail=look())
    except TidegateError as error:
        return Finding(name=name, ok=False, detail=error.message, hint=error.hint)


def _registry(config: Config) -> str:
    with Registry.open(config.registry) as registry:
        count = len(registry.status())
    return f"ready, {count} stream{'s' if count != 1 else ''} known"


def _lake(lake: Format, name: str) -> str:
    lake.state(Target(lake=name, namespace=(NOBODY,), table=NOBODY), NOBODY)
    return "the catalog answers"


def _refusals(lake: Format, target: Target) -> Iterator[Finding]:
    """Why no load can be written into a lake; that it cannot be reached is told as a lake."""
    try:
        lake.refuse_loads(target)
    except Incompatible as error:
        yield Finding(name=f"loads into {target.lake}", ok=False, detail=error.message, hint=error.hint)
    except TidegateError:
        return


def _warehouse(config: Config, name: str) -> str:
    node = config.lakes[name].get("warehouse")
    text = node.text() if node else ""
    local = Path(text.removeprefix("file://"))
    if "://" in text and not text.startswith("file://"):
        return f"{text} (remote: tested by the first load)"
    folder = next(path for path in (local, *local.parents) if path.exists())
    if not folder.is_dir():
        raise EnvironmentMissing(f"{folder} is not a folder", hint="Use another `warehouse:`.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentMissing(f"{folder} is not writable", hint=f"`chmod u+w {folder}`, or use another warehouse.")
    free = f"{shutil.disk_usage(folder).free // 2**30} GiB free"
    if folder == local:
        return f"{local} is writable, {free}"
    return f"{local} does not exist (unless a disk is not mounted, the first load creates it in {folder}, {free})"


def _source(stream: Stream) -> str:
    with stream.source.probe() as probe:
        columns = probe.schema()
        probe.identity()
    return f"{stream.source_name} answers, {counted(len(columns.columns), 'column')}"


def _uncertified(config: Config) -> Iterator[Finding]:
    """Nothing that a run needs. A server that does not answer is told as a source."""
    for connection in certificates.databases(config):
        with suppress(TidegateError):
            if text := certificates.missing(connection):
                yield Finding(
                    name=f"certificate of {connection.name}", ok=True, detail=f"{text}; {certificates.CERTIFY}"
                )


def _has_slot(stream: Stream) -> bool:
    return stream.source.replication_slot is not None


def _slot(stream: Stream) -> str:
    kept = next((one.slot for one in replication_slot.slots([stream])), None)
    if kept is None or not kept.exists:
        return "not created yet: the first run creates it"
    if kept.warning:
        raise SourceError(
            kept.warning, hint=f"`tidegate run {stream.name}`, or `tidegate slot drop {kept.name} --yes`."
        )
    status = kept.status or "in an unknown state"
    return f"{kept.name} is {status}, {kept.bytes / 2**20:,.0f} MiB of log are retained for it"


def _connect_client() -> str:
    import importlib.util  # noqa: PLC0415 - only for this question

    if importlib.util.find_spec("grpc") is None:
        raise EnvironmentMissing("the Spark Connect client is not installed", hint=extras.hint("connect"))
    return "the Spark Connect client is installed"


def _java() -> str:
    from tidegate.spark import java  # noqa: PLC0415 - only for this question

    found = java.find_java()
    return f"version {found.version} at {found.path}"


def _jars(coordinates: tuple[str, ...], *, fetch: Callable[[str], None] | None) -> str:
    from tidegate.spark import archive, jars  # noqa: PLC0415 - only for this question

    tidied = ""
    if fetch:
        jars.resolve(coordinates, tell=fetch)
        if not archive.options(coordinates):
            fetch("archiving Spark's classes, which takes about 20 seconds")
        archive.make(coordinates)
        removed, freed = archive.prune()
        if removed:
            tidied = f", removed {removed} class archives of environments that are gone ({freed / 10**6:,.0f} MB)"
    missing = jars.missing(coordinates)
    if missing:
        raise EnvironmentMissing(
            f"not fetched yet: {', '.join(missing)}", hint="`tidegate doctor --fetch`; the first run does this too."
        )
    slow = "" if archive.options(coordinates) else ", Spark starts faster after `tidegate doctor --fetch`"
    return f"{len(coordinates)} in the cache{slow}{tidied}"
