"""Which servers have been certified, by one table, and who is told of one that has not.

A missing certificate stops nothing: it says that nobody has shown a report of that version.
"""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tidegate import plugins
from tidegate.config import Config
from tidegate.core.ids import Connection
from tidegate.errors import TidegateError

log = logging.getLogger("tidegate")

KEPT = Path(".tidegate", "certificates.json")
"""In the project's folder: by connection the database that its user was told of, if anything."""
CERTIFY = "`tidegate certify URL` tries it in a schema of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A run of the scenario kit in which nothing failed.

    Args:
        series: the part of the server's version that it is for.
        driver, jdbc: the drivers of Python and of Spark.
        passed: how many cases did.
        not_supported: the names of those that the database cannot serve, or the kit cannot cause there.
    """

    dialect: str
    product: str
    series: str
    version: str
    date: str
    tidegate: str
    spark: str
    python: str
    driver: str
    jdbc: str
    passed: int
    not_supported: list[str]


@cache
def certified() -> tuple[Certificate, ...]:
    """Every server that is known to work, by dialect."""
    text = (resources.files("tidegate.dialects") / "certified.toml").read_text(encoding="utf-8")
    return tuple(Certificate(**each) for each in tomllib.loads(text)["certified"])


def missing(connection: Connection) -> str | None:
    """What to say of a database without a certificate; None where it has one. Asks the server for its version.

    Raises:
        TidegateError: the server cannot be asked.
    """
    dialect = plugins.dialect_of(connection.scheme)()

    def ask(sql: str) -> Sequence[Sequence[Any]]:
        with closing(dialect.open(connection)) as session:
            found: Sequence[Sequence[Any]] = session.rows(sql)
            return found

    server = dialect.server(ask)
    if server is None:
        return f"connection {connection.name!r}: {dialect.kind} has not been certified yet"
    known = [f"{each.product} {each.series}" for each in certified() if each.dialect == dialect.kind]
    found = f"{server.product} {server.major}"
    if found in known:
        return None
    others = f", only {', '.join(known)}" if known else ""
    return f"connection {connection.name!r}: {found} has not been certified yet{others}"


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
