"""Where a login of an API may be sent: to the host that the project names, and where nobody else can read it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.core.addresses import in_the_clear, origin
from tidegate.errors import SourceRefused
from tidegate.sources._api.extraction import without_logins

PLAIN = "Use https://; or, where everybody on the way may read the login, set `plain_http: true` under `http:`."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginScope:
    """Where the login of one source may be sent.

    Args:
        url: of the first page.
        hosts: other hosts that may get it.
        plain_http: in the clear, too.
    """

    url: str
    hosts: tuple[str, ...] = ()
    plain_http: bool = False

    def check(self, url: str) -> None:
        """Looks at the address of a request before it is sent: the first one, of a further page or of a redirect.

        Raises:
            SourceRefused: the login must not be sent there.
        """
        where = without_logins(url)
        if in_the_clear(url) and not self.plain_http:
            raise SourceRefused(f"the login would be sent to {where} in the clear", hint=PLAIN)
        host = urlsplit(url).hostname or ""
        if origin(url) == origin(self.url) or host in self.hosts or self._upgrade(url):
            return
        raise SourceRefused(
            f"{without_logins(self.url)} leads to {where}, which would get the login",
            hint=f"If that is right, allow it under `http:`: `login_hosts: [{host}]`.",
        )

    def _upgrade(self, url: str) -> bool:
        """From http to https on the same host, at the ports that these have by default."""
        before, now = origin(self.url), origin(url)
        return before == ("http", now[1], 80) and now == ("https", now[1], 443)
