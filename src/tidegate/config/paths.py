"""Makes relative paths in a project absolute: they are relative to the project folder, not the working directory."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import replace
from pathlib import Path

from tidegate import plugins
from tidegate.config.nodes import Node
from tidegate.core.ids import Connection
from tidegate.dialects.shared.database_file import url_of
from tidegate.errors import UnknownPlugin

_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?):///(?P<path>[^?]*)(?P<query>.*)", re.DOTALL)


def absolute_path(text: str, folder: Path) -> str:
    """A path below the folder; anything with a scheme, such as `s3://…`, stays as it is.

    Example:
        >>> absolute_path("./warehouse", Path("/project"))
        '/project/warehouse'
    """
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) else os.path.normpath(folder / text)


def absolute_url(url: str, folder: Path) -> str:
    """A URL of SQLAlchemy's whose SQLite file is absolute; any other text stays as it is.

    Example:
        >>> absolute_url("sqlite:///shop.db", Path("/project"))
        'sqlite:////project/shop.db'
    """
    match = _SQLITE.fullmatch(url)
    if match is None or match["path"] in ("", ":memory:") or match["path"].startswith("file:"):
        return url
    return f"{match['scheme']}:///{os.path.normpath(folder / match['path'])}{match['query']}"


def absolute_connection(connection: Connection, folder: Path) -> Connection:
    """A connection whose URL names an absolute file, of a database that is a file; any other as it is."""
    try:
        file = plugins.dialect_of(connection.scheme)().file(connection.url)
    except UnknownPlugin:
        return connection
    if file is None:
        return connection
    return replace(connection, url=url_of(connection.url, Path(os.path.normpath(folder / file))))


def absolute_source(source: Node, folder: Path) -> Node:
    """A source whose files are named from the project's folder on, in whose own name nothing is a wildcard."""
    path = source.get("path")
    if path is None or not isinstance(path.value, str):
        return source
    named = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path.value) is not None
    start = folder if Path(path.value).is_absolute() else Path(glob.escape(str(folder)))
    text = path.value if named else os.path.normpath(start / path.value)
    return source.updated({"path": replace(path, value=text)})
