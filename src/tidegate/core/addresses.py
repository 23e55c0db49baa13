"""Which addresses are of this machine, and which URLs are sent in the clear."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tidegate.errors import ConfigError

PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    Example:
        >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "db.example")]
        [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_the_clear(url: str) -> bool:
    """Whether others on the network can read what is sent there.

    Example:
        >>> [in_the_clear(url) for url in ("http://api.example/v1", "https://api.example", "http://127.0.0.1:80/")]
        [True, False, False]
    """
    parts = urlsplit(url)
    return parts.scheme.lower() != "https" and not is_loopback(parts.hostname or "")


def login_in_the_clear(url: str) -> bool:
    """Whether the URL holds a login that others on the network can read when it is sent there.

    Example:
        >>> urls = ("http://me:x@broker:8081", "http://broker:8081", "https://me:x@broker", "http://me:x@127.0.0.1:8081")
        >>> [login_in_the_clear(url) for url in urls]
        [True, False, False, False]
    """
    return in_the_clear(url) and urlsplit(url).username is not None


def refuse_clear_login(url: str, what: str, allowed: str) -> None:
    """Raises ConfigError if the URL's login would be sent in the clear.

    Args:
        what: whose login it is.
        allowed: what the user does to send it all the same.
    """
    if login_in_the_clear(url):
        raise ConfigError(
            f"{what} would be sent in the clear",
            hint=f"Use https://; or, where everybody on the way may read it, {allowed}.",
        )


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: who gets what is sent there.

    Example:
        >>> origin("https://API.example/v1?x=1") == origin("https://api.example:443")
        True
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, parts.hostname or "", parts.port or PORTS.get(scheme)
