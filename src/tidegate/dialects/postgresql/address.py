"""Parses the URL of a PostgreSQL connection, as libpq does, and says how it is encrypted.

Never shows the URL, which may contain a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from tidegate.core.ids import Connection
from tidegate.core.keepalive import LIBPQ
from tidegate.dialects.postgresql.plain_urls import MODES
from tidegate.dialects.shared import tls
from tidegate.dialects.shared.server_url import refuse_unknown
from tidegate.errors import ConfigError

ALIASES = ("ssl",)
"""What libpq takes for the sake of JDBC's users."""
SHAPE = "Use postgresql://user:password@host:5432/database?sslmode=verify-full; in user and password write %40 for @."
ROOT = Path("~/.postgresql/root.crt")
"""Where libpq and Spark's driver look for authorities."""


def options_of(connection: Connection) -> dict[str, str]:
    """The parts of the URL, as libpq names them. Raises ConfigError, which does not show the URL."""
    scheme, found, rest = connection.url.partition("://")
    if not found:
        raise ConfigError(f"connection {connection.name!r} has no URL of the form postgresql://host/database")
    about = f"connection {connection.name!r}"
    try:
        _refuse_unknown(about, rest)
        urlsplit(connection.url)  # refuses brackets that libpq takes, as masks and lineage would
        options = conninfo_to_dict(f"{scheme.split('+')[0]}://{rest}")
    except (psycopg.Error, ValueError):
        # The text of the error would show the URL, password and all.
        raise ConfigError(
            f"{about}: the URL cannot be parsed",
            hint="Percent-encode special characters in user and password: %40 for @, %2F for /, %3A for :, %5B for [ "
            "and %5D for ].",
        ) from None
    stated = {word: str(value) for word, value in options.items() if value is not None}
    if not all(port.isdigit() or not port for port in stated.get("port", "").split(",")):
        raise ConfigError(f"{about}: the port in the URL is not a number")
    if stated.get("sslmode", tls.VERIFIED) not in MODES:
        raise ConfigError(f"{about}: sslmode must be one of {', '.join(MODES)}")
    return stated


def _refuse_unknown(about: str, rest: str) -> None:
    """Refuses options that the installed libpq does not know, which says so with their names."""
    given = [each.partition("=")[0] for each in rest.partition("?")[2].split("&") if each]
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    refuse_unknown(about, map(unquote, given), (*known, *ALIASES), SHAPE)


def reaching(options: Mapping[str, str]) -> dict[str, str]:
    """The options with those by which a server that cannot be reached, or vanishes, is noticed."""
    return {"connect_timeout": "10", **LIBPQ, **options}


def hosts(options: Mapping[str, str]) -> list[str]:
    """Where the server is; an empty text for a socket file."""
    text = options.get("hostaddr") or options.get("host") or os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST")
    return (text or "").split(",")


def encrypted(options: Mapping[str, str]) -> dict[str, str]:
    """The options with those of TLS stated, so that libpq and Spark's driver do the same.

    Beyond this machine the server is verified unless the URL, or libpq's own variables, say otherwise. A mode that is
    stated stays, but `require` with an authority verifies by it, as libpq does and Spark's driver would not.
    """
    mode = options.get("sslmode") or os.environ.get("PGSSLMODE")
    root = options.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    if mode is None:
        if "service" in options or (root is None and tls.is_local(hosts(options))):
            return dict(options)
        mode = tls.VERIFIED
    if root is None and (own := ROOT.expanduser()).is_file():
        root = str(own)
    if mode == "require" and root is not None:
        mode = tls.VERIFIED if root == tls.SYSTEM else "verify-ca"
    if mode.startswith("verify-") and root in (None, tls.SYSTEM):
        root = tls.authorities()
    return {**options, "sslmode": mode, **({"sslrootcert": root} if root is not None else {})}


def in_the_clear(connection: Connection) -> str | None:
    options = encrypted(options_of(connection))
    return tls.warning(connection.name, options.get("sslmode", ""), hosts(options))
