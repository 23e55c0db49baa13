"""Parses the URL of a Trino connection.

Never shows the URL, which may contain a password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Jdbc
from tidegate.dialects.shared.server_url import in_brackets, server_url
from tidegate.errors import ConfigError

SHAPE = (
    "Use trino://user@host[:port]/catalog[/schema][?ssl=true&verify=/path/to/ca.pem], and user:password@ for a login "
    "by password."
)
APPLICATION = "tidegate"
DRIVER = "io.trino.jdbc.TrinoDriver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the server is and as whom it is asked.

    Args:
        ssl: whether it is asked over TLS.
        verify: whether its certificate is looked at, or a file of the authorities that are trusted.
    """

    host: str
    port: int
    user: str
    password: str | None = field(repr=False)
    catalog: str
    schema: str | None
    ssl: bool
    verify: bool | str

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    def jdbc(self) -> Jdbc:
        """The same server for Spark's driver."""
        schema = f"/{quote(self.schema, safe='')}" if self.schema else ""
        properties = {"driver": DRIVER, "user": self.user, "source": APPLICATION}
        if self.password is not None:
            properties["password"] = self.password
        if self.ssl:
            properties["SSL"] = "true"
            if self.verify is False:
                properties["SSLVerification"] = "NONE"
            elif isinstance(self.verify, str):
                properties["SSLTrustStorePath"] = self.verify
        return Jdbc(
            url=f"jdbc:trino://{in_brackets(self.host)}:{self.port}/{quote(self.catalog, safe='')}{schema}",
            properties=properties,
        )


def address_of(connection: Connection) -> Address:
    """The parts of the URL; TLS where there is a password, or at port 443, unless it says otherwise.

    Raises:
        ConfigError: something is missing, unknown or contradicts itself.
    """
    about = f"connection {connection.name!r}"
    url = server_url(connection, options=("ssl", "verify"), hint=SHAPE)
    port, password, options = url.port, url.password, url.options
    if not url.user or len(url.path) not in (1, 2):
        raise ConfigError(f"{about}: the URL has no user or no catalog", hint=SHAPE)
    ssl = _switch(about, "ssl", options.get("ssl", "true" if password is not None or port == 443 else "false"))
    if password is not None and not ssl:
        raise ConfigError(f"{about}: Trino accepts a password only over TLS", hint=SHAPE)
    verify = options.get("verify", "true")
    return Address(
        host=url.host,
        port=port or (443 if ssl else 8080),
        user=url.user,
        password=password,
        catalog=url.path[0],
        schema=url.path[1] if len(url.path) == 2 else None,
        ssl=ssl,
        verify=verify if verify.startswith("/") else _switch(about, "verify", verify),
    )


def _switch(about: str, name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ConfigError(f"{about}: {name} is {text!r}, and must be true or false", hint=SHAPE)
    return text == "true"
