"""Databases that are servers: the parts of their URLs. No error shows a URL, which may contain a password."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate.core.ids import Connection
from tidegate.core.spelling import nearest
from tidegate.errors import ConfigError

CONNECT, DEFAULT = "connect_timeout", "10"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUrl:
    """A URL's parts, decoded.

    Args:
        path: what stands between slashes.
        options: each option that is written, also without a value.
    """

    host: str
    port: int | None
    user: str
    password: str | None = field(repr=False)
    path: tuple[str, ...]
    options: Mapping[str, str]


def server_url(connection: Connection, *, options: Collection[str], hint: str) -> ServerUrl:
    """The parts of the connection's URL.

    Args:
        options: those that are known.
        hint: how the URL is written.

    Raises:
        ConfigError: it cannot be parsed, names no host, has an unknown option, or a time that is no number.
    """
    about = f"connection {connection.name!r}"
    try:
        # A driver's name may have a character that Python takes for none of a scheme: oracle+cx_oracle.
        parts = urlsplit(f"{connection.scheme}://{connection.url.partition('://')[2]}")
        found = ServerUrl(
            host=unquote(parts.hostname or ""),
            port=parts.port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password) if parts.password is not None else None,
            path=tuple(unquote(part) for part in parts.path.split("/") if part),
            options=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )
    except ValueError:
        # The text of the error would show the URL, password and all.
        raise ConfigError(f"{about}: the URL cannot be parsed", hint=hint) from None
    if not found.host or parts.fragment:
        raise ConfigError(f"{about}: the URL has no host, or a # in it", hint=hint)
    refuse_unknown(about, found.options, options, hint)
    if not found.options.get(CONNECT, DEFAULT).isdigit():
        raise ConfigError(f"{about}: {CONNECT} must be a number of seconds")
    return found


def refuse_unknown(about: str, given: Iterable[str], known: Collection[str], hint: str) -> None:
    """Raises ConfigError for the first option that is not known.

    The error gives its position, not its name, which is part of the password if that has an `&` and is not encoded.
    """
    place, name = next(((at, each) for at, each in enumerate(given, 1) if each not in known), (0, None))
    if name is not None:
        near = nearest(name, known)
        meant = f"did you mean {near!r}? Known" if near else "known"
        raise ConfigError(
            f"{about}: option {place} of the URL is not known; {meant} options: {', '.join(known)}", hint=hint
        )


def connect_seconds(options: Mapping[str, str]) -> int:
    """How long an attempt to connect takes at most, by the options of such a URL."""
    return int(options.get(CONNECT, DEFAULT))


def in_brackets(host: str) -> str:
    """A host as it stands before a port; an address of IPv6 has colons itself."""
    return f"[{host}]" if ":" in host else host
