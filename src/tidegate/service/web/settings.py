"""Settings of the dashboard: where it listens, who may see it, what it shows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from tidegate.core.addresses import is_loopback
from tidegate.errors import ConfigError

TOKEN = "TIDEGATE_DASHBOARD_TOKEN"  # noqa: S105 - the name of the variable
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Settings of the dashboard.

    Args:
        host: the address that it listens on; another one than loopback needs `token` or `user_header` to be given.
        token: who knows it may see the dashboard; a random one unless given. Empty only with a `user_header`.
        user_header: a header in which a proxy names the user that it has authenticated.
        hosts: names under which browsers reach it, beside those of loopback.
        read_only: without actions.
        show_data: with values of rows.
    """

    host: str = "127.0.0.1"
    port: int = 8471
    token: str = field(default="", repr=False)
    user_header: str = ""
    hosts: tuple[str, ...] = ()
    read_only: bool = False
    show_data: bool = False

    def checked(self) -> WebSettings:
        """The same, safe to serve: on loopback without a token it gets a random one.

        Raises:
            ConfigError: it would be open to whoever reaches the address.
        """
        if self.token or self.user_header:
            return self
        if not is_loopback(self.host):
            raise ConfigError(
                f"the dashboard would be open to everybody who reaches {self.host}",
                hint="Give it a token, or the header in which your proxy names the user; or leave the host away.",
            )
        return WebSettings(
            host=self.host,
            port=self.port,
            token=secrets.token_urlsafe(32),
            hosts=self.hosts,
            read_only=self.read_only,
            show_data=self.show_data,
        )

    @property
    def url(self) -> str:
        """Where a browser opens it, with the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that a Host header may have, without a port."""
        return frozenset({*LOOPBACK, *(host.lower() for host in self.hosts), self.host.lower()})
