"""Parses an Oracle URL for both drivers, Python's and Spark's.

Never shows the password.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.oracle.placeholders import escaped
from tidegate.dialects.shared import tls
from tidegate.dialects.shared.server_url import connect_seconds, in_brackets, server_url
from tidegate.errors import ConfigError, SourceRefused

PLAIN_PORT, TLS_PORT = 1521, 2484
APPLICATION = "tidegate"
PLAIN = "disable"
MODES = (PLAIN, tls.VERIFIED)
OPTIONS = ("sslmode", "sslrootcert", "truststore", "connect_timeout", "cdb")
SHAPE = (
    "Use oracle://user:password@host:2484/service_name; in user and password write %40 for @, %2F for / and %3A for :."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is, and how to get there.

    Args:
        service: the name of the service, such as that of a pluggable database.
        authorities: the file of those that the server is verified by; None without TLS.
    """

    host: str
    port: int
    user: str
    service: str
    authorities: str | None
    options: Mapping[str, str]
    password: str = field(repr=False)

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def mode(self) -> str:
        """How it is encrypted."""
        return PLAIN if self.authorities is None else tls.VERIFIED

    @property
    def seconds(self) -> int:
        """How long an attempt to connect takes at most."""
        return connect_seconds(self.options)

    def arguments(self) -> dict[str, Any]:
        """What Python's driver is given. Raises SourceRefused: the file of authorities cannot be read."""
        found: dict[str, Any] = {
            "user": self.user,
            "password": self.password,
            "host": self.host,
            "port": self.port,
            "service_name": self.service,
            "tcp_connect_timeout": self.seconds,
            "program": APPLICATION,
        }
        if self.authorities is not None:
            try:
                context = ssl.create_default_context(cafile=self.authorities)
            except (OSError, ssl.SSLError) as error:
                raise SourceRefused(f"the file of authorities {self.authorities} cannot be read") from error
            found |= {"protocol": "tcps", "ssl_context": context, "ssl_server_dn_match": True}
        return found

    def jdbc(self, session: str) -> Jdbc:
        """What Spark is given.

        Args:
            session: the block that each of its connections begins with.
        """
        properties = {
            "driver": "oracle.jdbc.OracleDriver",
            "user": self.user,
            "oracle.net.CONNECT_TIMEOUT": str(1000 * self.seconds),
            "v$session.program": APPLICATION,
            "sessionInitStatement": session,
        }
        if self.password:
            properties["password"] = self.password
        if self.authorities is not None:
            properties["oracle.net.ssl_server_dn_match"] = "true"
        if "truststore" in self.options:
            properties |= {
                "javax.net.ssl.trustStore": self.options["truststore"],
                "javax.net.ssl.trustStoreType": "JKS",
            }
        protocol = "tcp" if self.authorities is None else "tcps"
        where = f"{in_brackets(self.host)}:{self.port}/{quote(self.service, safe='._')}"
        return Jdbc(url=f"jdbc:oracle:thin:@{protocol}://{where}", properties=properties, escaped=escaped)


def address_of(connection: Connection) -> Address:
    """The parts of the URL; beyond this machine the server is verified unless the URL says otherwise.

    Raises:
        ConfigError: no user, host or service, or a word that is not known.
    """
    about = f"connection {connection.name!r}"
    url = server_url(connection, options=OPTIONS, hint=SHAPE)
    options = url.options
    if not url.user or len(url.path) != 1:
        raise ConfigError(f"{about}: the URL has no user or no service", hint=SHAPE)
    mode = options.get("sslmode", PLAIN if tls.is_local([url.host]) and "sslrootcert" not in options else tls.VERIFIED)
    if mode not in MODES:
        raise ConfigError(f"{about}: sslmode must be one of {', '.join(MODES)}")
    if mode == PLAIN and {"sslrootcert", "truststore"} & set(options):
        raise ConfigError(f"{about}: sslrootcert and truststore need sslmode={tls.VERIFIED}")
    stated = options.get("sslrootcert", tls.SYSTEM)
    verified = tls.authorities() if stated == tls.SYSTEM else stated
    return Address(
        host=url.host,
        port=url.port or (PLAIN_PORT if mode == PLAIN else TLS_PORT),
        user=url.user,
        password=url.password or "",
        service=url.path[0],
        authorities=None if mode == PLAIN else verified,
        options=options,
    )
