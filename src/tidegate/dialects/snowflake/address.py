"""Parses the URL of a Snowflake connection for both drivers, Python's and Spark's.

Never shows the URL, which may contain a password, a key or a token. Always over TLS, except to an emulator on this
machine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.core.addresses import is_loopback
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared.server_url import ServerUrl, in_brackets, server_url
from tidegate.errors import ConfigError

DOMAINS = (".snowflakecomputing.com", ".snowflakecomputing.cn")
APPLICATION = "tidegate"
DRIVER = "net.snowflake.client.jdbc.SnowflakeDriver"
OPTIONS = ("warehouse", "role", "authenticator", "token", "private_key", "private_key_file", "private_key_file_pwd")
SHAPE = (
    "Use snowflake://user:${PASSWORD}@account/database[/schema]?warehouse=…&role=…; in place of the password, "
    "private_key_file=/path/to/rsa_key.p8, private_key=${KEY}, token=${PAT}, or authenticator=oauth&token=${TOKEN}."
)
ARMOUR = re.compile(r"-----(BEGIN|END) PRIVATE KEY-----")
# Of every session, ours and Spark's, whatever account, user or role set: a name means what it says, a literal is read
# as it is written, no result is cut short, and floating point arrives as its bits.
SESSION = {
    "TIMEZONE": "UTC",
    "QUOTED_IDENTIFIERS_IGNORE_CASE": "false",
    "ROWS_PER_RESULTSET": "0",
    "DATE_INPUT_FORMAT": "AUTO",
    "TIME_INPUT_FORMAT": "AUTO",
    "TIMESTAMP_INPUT_FORMAT": "AUTO",
    "AUTOCOMMIT": "true",
    "QUERY_TAG": APPLICATION,
}


class Login(StrEnum):
    """How a user proves who it is, in the words of both drivers."""

    BY_PASSWORD = "snowflake"  # noqa: S105 - a word of the drivers
    KEY_PAIR = "snowflake_jwt"
    ACCESS_TOKEN = "programmatic_access_token"  # noqa: S105 - a word of the drivers
    OAUTH = "oauth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the account is, and as whom it is asked.

    Args:
        port: of an emulator on this machine; None for Snowflake.
        secrets: what `login` needs, by the name of the URL's option; `private_key` in Base64.
    """

    host: str
    port: int | None
    user: str
    database: str
    schema: str | None
    warehouse: str | None
    role: str | None
    login: Login
    secrets: Mapping[str, str] = field(repr=False)

    @property
    def account(self) -> str:
        """The account's identifier, as the host begins."""
        return next((self.host.removesuffix(end) for end in DOMAINS if self.host.endswith(end)), self.host)

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host

    def arguments(self) -> dict[str, Any]:
        """What Python's driver is given."""
        found = {
            "account": self.account,
            "host": self.host,
            "user": self.user,
            "database": self.database,
            "schema": self.schema,
            "warehouse": self.warehouse,
            "role": self.role,
            "authenticator": self.login.value,
            **self.secrets,
        }
        emulator = {"port": self.port, "protocol": "http"} if self.port else {}
        return {name: value for name, value in {**found, **emulator}.items() if value is not None}

    def jdbc(self) -> Jdbc:
        """The same for Spark's driver, whose results come as Arrow: as text, a float would lose its last digits."""
        names = {"private_key": "private_key_base64"}
        found = {
            "driver": DRIVER,
            "user": self.user,
            "db": self.database,
            "schema": self.schema,
            "warehouse": self.warehouse,
            "role": self.role,
            "authenticator": self.login.value,
            **{names.get(name, name): secret for name, secret in self.secrets.items()},
            **SESSION,
            "JDBC_QUERY_RESULT_FORMAT": "ARROW",
            "CLIENT_SESSION_KEEP_ALIVE": "true",
        }
        if self.port:
            found |= {"account": self.account, "ssl": "off"}
        url = f"http://{in_brackets(self.host)}:{self.port}" if self.port else self.host
        return Jdbc(
            url=f"jdbc:snowflake://{url}/",
            properties={name: value for name, value in found.items() if value is not None},
        )


def address_of(connection: Connection) -> Address:
    """The parts of the URL. Raises ConfigError: something is missing, unknown or contradicts itself."""
    about = f"connection {connection.name!r}"
    url = server_url(connection, options=OPTIONS, hint=SHAPE)
    if not url.user or len(url.path) not in (1, 2):
        raise ConfigError(f"{about}: the URL has no user or no database", hint=SHAPE)
    local = is_loopback(url.host)
    if url.port is not None and not local:
        raise ConfigError(f"{about}: Snowflake is reached over TLS at its own port, so the URL has none", hint=SHAPE)
    if local and url.port is None:
        raise ConfigError(f"{about}: an emulator on this machine has a port", hint=SHAPE)
    known = local or url.host.endswith(DOMAINS)
    login, secrets = _login(about, url)
    return Address(
        host=url.host if known else f"{url.host.replace('_', '-')}{DOMAINS[0]}",
        port=url.port,
        user=url.user,
        database=url.path[0],
        schema=url.path[1] if len(url.path) == 2 else None,
        warehouse=url.options.get("warehouse"),
        role=url.options.get("role"),
        login=login,
        secrets=secrets,
    )


def _login(about: str, url: ServerUrl) -> tuple[Login, Mapping[str, str]]:
    """The one way in that the URL names, and its secrets."""
    given = {name: url.options[name] for name in ("token", "private_key", "private_key_file") if name in url.options}
    if url.password is not None:
        given["password"] = url.password
    empty = sorted(name for name, value in {**given, **url.options}.items() if not value)
    if empty:
        raise ConfigError(f"{about}: {empty[0]!r} has no value", hint=SHAPE)
    if len(given) != 1:
        found = f"names {' and '.join(sorted(given))}" if given else "names no password, key or token"
        raise ConfigError(f"{about}: the URL {found}, and one of them is needed", hint=SHAPE)
    ((name, secret),) = given.items()
    ways = {"password": (Login.BY_PASSWORD,), "token": (Login.ACCESS_TOKEN, Login.OAUTH)}.get(name, (Login.KEY_PAIR,))
    stated = url.options.get("authenticator", ways[0]).lower()
    if stated not in {way.value for way in ways}:
        possible = " or ".join(ways)
        raise ConfigError(f"{about}: with {name}, authenticator must be {possible}, not {stated!r}", hint=SHAPE)
    if name == "private_key":
        secret = _encoded(about, secret)
    phrase = url.options.get("private_key_file_pwd")
    if phrase is not None and name != "private_key_file":
        raise ConfigError(f"{about}: private_key_file_pwd belongs to private_key_file", hint=SHAPE)
    return Login(stated), {name: secret} | ({} if phrase is None else {"private_key_file_pwd": phrase})


def _encoded(about: str, key: str) -> str:
    """A private key as Base64 of its DER, from that or from PEM."""
    text = "".join(ARMOUR.sub("", key).split())
    try:
        base64.b64decode(text, validate=True)
    except ValueError:  # of which the error of Base64 is one
        raise ConfigError(
            f"{about}: private_key is no unencrypted key in PKCS #8, as PEM or as its Base64",
            hint="Make one with `openssl pkcs8 -topk8 -nocrypt`; an encrypted one is read from private_key_file=.",
        ) from None
    return text
