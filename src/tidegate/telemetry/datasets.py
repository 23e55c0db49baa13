"""Names of databases, tables and files by the conventions of OpenLineage and OpenTelemetry. Never a user or password.

See the dataset naming of OpenLineage's specification, and OpenTelemetry's conventions for databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from tidegate.core.origin import DatabaseTable, LakeTable, Origin, StoredFiles, Topic

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "trino": 8080}
SCHEMES = {"postgresql": "postgres", "mariadb": "mysql"}
"""OpenLineage's words; MariaDB speaks MySQL's protocol, and has no word of its own there."""
WITH_SCHEMAS = frozenset({"postgresql", "trino"})
"""Those whose tables lie in a schema of the database."""


@dataclass(frozen=True, slots=True)
class Name:
    """A dataset's name within its namespace."""

    namespace: str
    name: str


def name_of(origin: Origin) -> Name | None:
    """The name by which other tools know it; None of a query, and of a table whose place or schema is not known."""
    match origin:
        case DatabaseTable():
            return _of_database(origin) if origin.parts else None
        case Topic():
            return Name(f"kafka://{origin.brokers.split(',')[0].strip()}", origin.name)
        case StoredFiles():
            return of_path(origin.path)
        case LakeTable():
            return of_path(origin.location) if origin.location else None


def of_path(path: str) -> Name:
    """A file or folder.

    Example:
        >>> of_path("s3a://lake/shop/orders/")
        Name(namespace='s3://lake', name='shop/orders')
        >>> of_path("file:/data/lake/orders")
        Name(namespace='file', name='/data/lake/orders')
    """
    parts = urlsplit(path)
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(parts.scheme, parts.scheme)
    if scheme in ("", "file"):
        whole = path[len("file:") :] if scheme else path
        return Name("file", f"/{whole.lstrip('/')}".rstrip("/") if whole.startswith("/") else whole.rstrip("/"))
    # What stands before the host of a URL may be a user with a password; in `abfss://` it is the container.
    host = parts.netloc if scheme in ("abfs", "abfss") and ":" not in parts.netloc else parts.netloc.rpartition("@")[2]
    return Name(f"{scheme}://{host}", parts.path.strip("/") or "/")


def database_attributes(origin: Origin | None) -> dict[str, Any]:
    """OpenTelemetry's attributes of a database; none of what is no database."""
    if not isinstance(origin, DatabaseTable):
        return {}
    system, host, port, database = _parts(origin)
    found: dict[str, Any] = {"db.system.name": system, "db.operation.name": "SELECT"}
    *within, table = _path(system, database, origin.parts) if origin.parts else (*filter(None, database.split("/")), "")
    found["db.namespace"] = "|".join(within)
    found["db.collection.name"] = table
    found["db.query.summary"] = f"SELECT {table}" if table else "SELECT"
    found["server.address"], found["server.port"] = host, port
    return {name: value for name, value in found.items() if value}


def _of_database(origin: DatabaseTable) -> Name | None:
    system, host, port, database = _parts(origin)
    names = _path(system, database, origin.parts)
    if not host:
        return Name(f"{system}://{database}", ".".join(names[1:]))
    if system in WITH_SCHEMAS and len(names) < 3:
        return None
    address = f"[{host}]" if ":" in host else host
    return Name(f"{SCHEMES.get(system, system)}://{address}:{port}", ".".join(names))


def _path(system: str, database: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The table by all that it lies in: what the project states of it, and the rest by the connection's URL."""
    if system == "trino":  # `catalog/schema`
        within = tuple(filter(None, database.split("/")))
        return (*within[: 3 - len(parts)], *parts)
    if system in ("mysql", "mariadb") and len(parts) == 2:
        return parts
    return (database, *(("main", *parts) if system == "duckdb" and len(parts) == 1 else parts))


def _parts(origin: DatabaseTable) -> tuple[str, str, int, str]:
    """System, host, port and database; of a database that is a file, its path alone."""
    # Without the driver, whose name Python may not take for part of a scheme.
    url = urlsplit(f"{origin.connection.scheme}://{origin.connection.url.partition('://')[2]}")
    system = {"postgres": "postgresql"}.get(origin.connection.scheme, origin.connection.scheme)
    if system in ("sqlite", "duckdb"):
        return system, "", 0, unquote(url.path)[1:] or ":memory:"
    server = urlsplit("//" + url.netloc.rpartition("@")[2].partition(",")[0])  # libpq takes several
    port = server.port or (443 if system == "trino" and url.password is not None else PORTS.get(system, 0))
    return system, server.hostname or "localhost", port, unquote(url.path.strip("/"))
