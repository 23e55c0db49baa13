"""Databases that are one file: what their URLs name, as SQLAlchemy reads them, and how Spark's driver gets there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tidegate.core.ids import Connection
from tidegate.errors import ConfigError


def file_of(url: str) -> Path | None:
    """The file of a URL: a relative path after three slashes, an absolute one after four; None if it names none.

    Example:
        >>> file_of("sqlite:///my%20shop.db?cache=shared"), file_of("sqlite:////data/shop.db"), file_of("sqlite://")
        (PosixPath('my shop.db'), PosixPath('/data/shop.db'), None)
    """
    _, found, rest = url.partition("://")
    path = unquote(rest.partition("?")[0])
    return Path(path[1:]) if found and path.startswith("/") and path not in {"/", "/:memory:"} else None


def url_of(url: str, file: Path) -> str:
    """The same URL for another file.

    Example:
        >>> url_of("sqlite:///shop.db?cache=shared", Path("/data/100%/shop.db"))
        'sqlite:////data/100%25/shop.db?cache=shared'
    """
    before, query, options = url.partition("?")
    path = str(file).replace("%", "%25").replace("?", "%3F")
    return f"{before.partition('://')[0]}:///{path}{query}{options}"


def opened_file(connection: Connection, scheme: str) -> Path:
    """The absolute path of the connection's file. Raises ConfigError: the URL names none."""
    file = file_of(connection.url)
    if file is None:
        raise ConfigError(
            f"connection {connection.name!r} names no file",
            hint=f"Use {scheme}:///relative.db or {scheme}:////absolute.db.",
        )
    return file.absolute()


def jdbc_path(name: str, path: Path) -> str:
    """The path as it stands in a URL of JDBC, which has no escapes.

    Args:
        name: the connection's.

    Raises:
        ConfigError: a character that a driver takes for the end of the path.
    """
    if set("?#%;") & set(str(path)):
        raise ConfigError(f"connection {name!r}: Spark's driver cannot read a file whose path contains ? # % or ;")
    return str(path)
