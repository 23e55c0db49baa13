"""Parses a SQL Server URL for both drivers, Python's and Spark's.

Never shows the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared import tls
from tidegate.dialects.shared.server_url import connect_seconds, server_url
from tidegate.errors import ConfigError

PORT = 1433
APPLICATION = "tidegate"
MODES = ("disable", "require", "verify-full")
OPTIONS = ("sslmode", "sslrootcert", "truststore", "connect_timeout")
SHAPE = (
    "Use sqlserver://user:password@host:1433/database; in user and password write %40 for @, %2F for / and %3A for :."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is, and how to get there.

    Args:
        mode: how it is encrypted; the login is encrypted even by `disable`.
        authorities: the file of those that the server is verified by; None where it is not.
    """

    host: str
    port: int
    user: str
    database: str
    mode: str
    authorities: str | None
    options: Mapping[str, str]
    password: str = field(repr=False)

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def seconds(self) -> int:
        """How long an attempt to connect takes at most."""
        return connect_seconds(self.options)

    def arguments(self) -> dict[str, Any]:
        """What Python's driver is given; `settings` says the rest."""
        return {
            "server": self.host,
            "port": str(self.port),
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "login_timeout": self.seconds,
            "encryption": "off" if self.mode == "disable" else "require",
            "charset": "UTF-8",
            "appname": APPLICATION,
            "tds_version": "7.4",
            "autocommit": True,
        }

    def settings(self) -> str:
        """What Python's driver reads from a file: by which authorities it verifies whom it talks to."""
        verified = [f"ca file = {self.authorities}", "check certificate hostname = yes"] if self.authorities else []
        return "\n".join(["[global]", *verified, ""])

    def jdbc(self, session: str) -> Jdbc:
        """What Spark is given.

        Args:
            session: the statements that each of its connections begins with.
        """
        properties = {
            "driver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
            "user": self.user,
            "databaseName": self.database,
            "encrypt": "false" if self.mode == "disable" else "true",
            "trustServerCertificate": str(self.mode == "require").lower(),
            "loginTimeout": str(self.seconds),
            "applicationName": APPLICATION,
            "sessionInitStatement": session,
        }
        if self.password:
            properties["password"] = self.password
        if "truststore" in self.options:
            properties["trustStore"] = self.options["truststore"]
        # An address of IPv6 stands without brackets there, in a property of its own.
        return Jdbc(
            url="jdbc:sqlserver://", properties={**properties, "serverName": self.host, "portNumber": str(self.port)}
        )


def address_of(connection: Connection) -> Address:
    """The parts of the URL; beyond this machine the server is verified unless the URL says otherwise.

    Raises:
        ConfigError: no user, host or database, or a word that is not known.
    """
    about = f"connection {connection.name!r}"
    url = server_url(connection, options=OPTIONS, hint=SHAPE)
    options = url.options
    if not url.user or len(url.path) != 1:
        raise ConfigError(f"{about}: the URL has no user or no database", hint=SHAPE)
    default = "require" if tls.is_local([url.host]) and "sslrootcert" not in options else tls.VERIFIED
    mode = options.get("sslmode", default)
    if mode not in MODES:
        raise ConfigError(f"{about}: sslmode must be one of {', '.join(MODES)}")
    if mode != tls.VERIFIED and {"sslrootcert", "truststore"} & set(options):
        raise ConfigError(f"{about}: sslrootcert and truststore need sslmode={tls.VERIFIED}")
    authorities = options.get("sslrootcert", tls.SYSTEM)
    if "\n" in authorities or "\r" in authorities:
        raise ConfigError(f"{about}: sslrootcert must be the path of a file")
    return Address(
        host=url.host,
        port=url.port or PORT,
        user=url.user,
        password=url.password or "",
        database=url.path[0],
        mode=mode,
        authorities=None if mode != tls.VERIFIED else tls.authorities() if authorities == tls.SYSTEM else authorities,
        options=options,
    )
