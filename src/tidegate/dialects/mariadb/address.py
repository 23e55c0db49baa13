"""Parses a MariaDB URL for both drivers, Python's and Spark's.

Never shows the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tidegate.core import keepalive
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared import tls
from tidegate.dialects.shared.server_url import connect_seconds, in_brackets, server_url
from tidegate.errors import ConfigError

PORT = 3306
MODES = {"disable": "disable", "require": "trust", "verify-ca": "verify-ca", "verify-full": "verify-full"}
WORDS = ("sslmode", "sslrootcert", "connect_timeout")
SHAPE = "Use mariadb://user:password@host:3306/database; in user and password write %40 for @, %2F for / and %3A for :."


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is, and how to get there."""

    host: str
    port: int
    user: str
    database: str
    options: Mapping[str, str]
    password: str = field(repr=False)

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def mode(self) -> str | None:
        """How it is encrypted: beyond this machine verified unless the URL says otherwise; None as the driver likes."""
        stated = self.options.get("sslmode")
        if stated is None and ("sslrootcert" in self.options or not tls.is_local([self.host])):
            return tls.VERIFIED
        return stated

    @property
    def authorities(self) -> str | None:
        """The file of the authorities by which the server is verified; None where it is not."""
        if self.mode is None or not self.mode.startswith("verify-"):
            return None
        stated = self.options.get("sslrootcert", tls.SYSTEM)
        return tls.authorities() if stated == tls.SYSTEM else stated

    def arguments(self) -> dict[str, Any]:
        """What Python's driver is given."""
        found: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "connect_timeout": connect_seconds(self.options),
        }
        if self.mode == "disable":
            found["ssl_disabled"] = True
        elif self.mode is not None:
            found["ssl"] = {
                "ca": self.authorities,  # without a file, the driver would look at no host name
                "verify_mode": "none" if self.authorities is None else "required",
                "check_hostname": self.mode == tls.VERIFIED,
            }
        return found

    def jdbc(self, settings: str) -> Jdbc:
        """What Spark is given: its dialect for MySQL, which quotes as the server does, over MariaDB's driver."""
        properties = {
            "driver": "org.mariadb.jdbc.Driver",
            "user": self.user,
            "tinyInt1isBit": "false",
            "yearIsDateType": "false",
            "connectTimeout": str(1000 * connect_seconds(self.options)),
            "tcpKeepIdle": str(keepalive.IDLE),
            "tcpKeepInterval": str(keepalive.INTERVAL),
            "tcpKeepCount": str(keepalive.COUNT),
            "sessionInitStatement": settings,
            "allowLocalInfile": "false",  # else a server may ask for files of this machine
        }
        if self.password:
            properties["password"] = self.password
        if self.mode is not None:
            properties["sslMode"] = MODES[self.mode]
        if self.authorities is not None:
            properties["serverSslCert"] = self.authorities
        url = f"jdbc:mysql://{in_brackets(self.host)}:{self.port}/{quote(self.database, safe='')}?permitMysqlScheme"
        return Jdbc(url=url, properties=properties)


def address_of(connection: Connection) -> Address:
    """The parts of the URL.

    Raises:
        ConfigError: no host or database, a port that is no number, a word that is not known.
    """
    url = server_url(connection, options=WORDS, hint=SHAPE)
    options, database = url.options, "/".join(url.path)
    if not database:
        raise ConfigError(f"connection {connection.name!r}: the URL has no database", hint=SHAPE)
    if options.get("sslmode", "disable") not in MODES:
        raise ConfigError(f"connection {connection.name!r}: sslmode must be one of {', '.join(MODES)}")
    return Address(
        host=url.host,
        port=url.port or PORT,
        user=url.user,
        password=url.password or "",
        database=database,
        options=options,
    )
