"""Parses a MariaDB URL for both drivers, Python's and Spark's.

Never shows the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared.server_url import in_brackets, server_url
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
        """Host and port, for people."""
        return f"{self.host}:{self.port}"

    def arguments(self) -> dict[str, Any]:
        """What Python's driver is given."""
        found: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "connect_timeout": int(self.options.get("connect_timeout", "10")),
        }
        mode = self.options.get("sslmode")
        if mode == "disable":
            found["ssl_disabled"] = True
        elif mode is not None:
            found["ssl"] = {
                "ca": self.options.get("sslrootcert"),
                "verify_mode": "none" if mode == "require" else "required",
                "check_hostname": mode == "verify-full",
            }
        return found

    def jdbc(self, settings: str) -> Jdbc:
        """What Spark is given: its dialect for MySQL, which quotes as the server does, over MariaDB's driver."""
        properties = {
            "driver": "org.mariadb.jdbc.Driver",
            "user": self.user,
            "tinyInt1isBit": "false",
            "yearIsDateType": "false",
            "connectTimeout": str(1000 * int(self.options.get("connect_timeout", "10"))),
            "sessionInitStatement": settings,
        }
        if self.password:
            properties["password"] = self.password
        if "sslmode" in self.options:
            properties["sslMode"] = MODES[self.options["sslmode"]]
        if "sslrootcert" in self.options:
            properties["serverSslCert"] = self.options["sslrootcert"]
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
    if not options.get("connect_timeout", "10").isdigit():
        raise ConfigError(f"connection {connection.name!r}: connect_timeout must be a number of seconds")
    return Address(
        host=url.host,
        port=url.port or PORT,
        user=url.user,
        password=url.password or "",
        database=database,
        options=options,
    )
