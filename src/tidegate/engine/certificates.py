"""Which servers have been certified, by the reports that the package contains, and who is told of one that has not.

A missing certificate stops nothing: it says that nobody has shown the kit's report of that version.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tidegate import plugins
from tidegate.config import Config
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Server
from tidegate.errors import TidegateError

log = logging.getLogger("tidegate")

KEPT = Path(".tidegate", "certificates.json")
"""In the project's folder: by connection the database that its user was told of, if anything."""
CERTIFY = "`tidegate certify URL` tries it in a schema of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """One report of the kit without a failure, as JSON; see `tidegate.certify.Report.to_dict`."""

    report: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, str]:
        """Dialect, product and major version: what it is for."""
        server = self.report["server"]
        return self.report["dialect"], server["product"], server["major"]


@cache
def shipped() -> tuple[Certificate, ...]:
    """The certificates that the package contains, by their files' names."""
    folder = resources.files("tidegate.dialects") / "certificates"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    found = (Certificate(report=json.loads(file.read_text(encoding="utf-8"))) for file in files)
    return tuple(each for each in found if each.report["counts"]["failed"] == 0)


def missing(connection: Connection) -> str | None:
    """What to say of a database without a certificate; None where it has one. Asks the server for its version.

    Raises:
        TidegateError: the server cannot be asked.
    """
    dialect = plugins.dialect_of(connection.scheme)()
    kit = dialect.certification
    if kit is None:
        return f"connection {connection.name!r}: {dialect.kind} has not been certified yet"
    server = kit.server(connection)
    if (dialect.kind, server.product, server.major) in {each.key for each in shipped()}:
        return None
    return f"connection {connection.name!r}: {_named(server)} has not been certified yet{_others(dialect.kind)}"


def _named(server: Server) -> str:
    return f"{server.product} {server.major}"


def _others(kind: str) -> str:
    names = [f"{product} {major}" for dialect, product, major in (each.key for each in shipped()) if dialect == kind]
    return f", only {', '.join(names)}" if names else ""


def databases(config: Config, streams: Collection[str] | None = None) -> Iterator[Connection]:
    """The connections of databases that streams read, each once.

    Args:
        streams: the names of those that count; None for all. A pattern counts if any stream does.
    """
    used = dict.fromkeys(
        entry.connection
        for entry in config.streams
        if entry.connection and (streams is None or entry.name in streams or (entry.is_pattern and streams))
    )
    for name in used:
        if name not in config.absent and config.connections[name].url:
            yield config.connections[name]


def remind(config: Config, streams: Collection[str]) -> None:
    """Logs a line for each database without a certificate, once a project and database; asks for no other version then.

    A server that cannot be asked is asked again by the next run, and a folder that cannot be written tells every time.
    """
    file = config.folder / KEPT
    known = _kept(file)
    new = {each.name: each.scheme for each in databases(config, streams) if known.get(each.name) != each.scheme}
    asked: dict[str, str] = {}
    for name, scheme in new.items():
        with suppress(TidegateError):
            text = missing(config.connections[name])
            asked[name] = scheme
            if text is not None:
                log.warning("%s; %s; this is said once", text, CERTIFY)
    if asked:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_text(json.dumps({**known, **asked}, indent=1) + "\n", encoding="utf-8")


def _kept(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
