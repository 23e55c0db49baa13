"""Parses a Teradata URL for both drivers, Python's and Spark's.

Never shows the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared import tls
from tidegate.dialects.shared.server_url import connect_seconds, in_brackets, server_url
from tidegate.errors import ConfigError

PLAIN_PORT, TLS_PORT = 1025, 443
MODES = {"disable": "DISABLE", "require": "REQUIRE", "verify-ca": "VERIFY-CA", "verify-full": "VERIFY-FULL"}
ON_THIS_MACHINE = "PREFER"
OPTIONS = ("sslmode", "sslrootcert", "connect_timeout")
SHAPE = (
    "Use teradata://user:password@host[:port]/database; in user and password write %40 for @, %2F for / and %3A for :."
)
# What stands for something else in a URL of the driver.
SEPARATORS = frozenset(",'\" =")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is, and how to get there.

    Args:
        mode: how it is encrypted; None as the drivers like.
        authorities: the file of those that the server is verified by; None where it is not.
    """

    host: str
    port: int
    user: str
    database: str
    mode: str | None
    authorities: str | None
    options: Mapping[str, str]
    password: str = field(repr=False)

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def parameters(self) -> dict[str, str]:
        """What both drivers are told alike, in the words that they share."""
        encrypted = self.mode not in (None, "disable")
        found = {
            "database": self.database,
            # Texts compare by their letters, blanks and case alike to what stands in the lake, and nothing is cut off.
            "tmode": "ANSI",
            "sslmode": ON_THIS_MACHINE if self.mode is None else MODES[self.mode],
            "https_port" if encrypted else "dbs_port": str(self.port),
        }
        if self.authorities is not None:
            found["sslca"] = self.authorities
        return found

    def arguments(self) -> dict[str, str]:
        """What Python's driver is given."""
        return {
            "host": self.host,
            "user": self.user,
            "password": self.password,
            "connect_timeout": str(1000 * connect_seconds(self.options)),
            "encryptdata": "true",
            **self.parameters,
        }

    def jdbc(self, session: str) -> Jdbc:
        """What Spark is given.

        Args:
            session: the statement that each of its connections begins with.
        """
        settings = {**self.parameters, "charset": "UTF8", "encryptdata": "ON"}
        url = ",".join(f"{name.upper()}={value}" for name, value in settings.items())
        properties = {
            "driver": "com.teradata.jdbc.TeraDriver",
            "user": self.user,
            "password": self.password,
            "sessionInitStatement": session,
        }
        return Jdbc(url=f"jdbc:teradata://{in_brackets(self.host)}/{url}", properties=properties)


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
    mode = options.get("sslmode")
    if mode is None and ("sslrootcert" in options or not tls.is_local([url.host])):
        mode = tls.VERIFIED
    if mode is not None and mode not in MODES:
        raise ConfigError(f"{about}: sslmode must be one of {', '.join(MODES)}")
    if "sslrootcert" in options and not str(mode).startswith("verify-"):
        raise ConfigError(f"{about}: sslrootcert needs sslmode={tls.VERIFIED}")
    stated = options.get("sslrootcert", tls.SYSTEM)
    if SEPARATORS & set(f"{url.path[0]}{stated}"):
        raise ConfigError(f"{about}: Spark's driver knows no such character in a database or a file", hint=SHAPE)
    verified = tls.authorities() if stated == tls.SYSTEM else stated
    encrypted = mode not in (None, "disable")
    return Address(
        host=url.host,
        port=url.port or (TLS_PORT if encrypted else PLAIN_PORT),
        user=url.user,
        password=url.password or "",
        database=url.path[0],
        mode=mode,
        authorities=verified if mode is not None and mode.startswith("verify-") else None,
        options=options,
    )
