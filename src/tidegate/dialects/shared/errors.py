"""What can go wrong with any database, in the same words."""

from __future__ import annotations

from tidegate.core.server_limits import limit_of
from tidegate.errors import ConfigError, SchemaRefused, SourceError, SourceRefused, SourceUnavailable


def bad_value(name: str, sentence: str) -> SchemaRefused:
    """A row has a value that its column's type does not allow; `sentence` is what the expression raised."""
    return SchemaRefused(
        f"connection {name!r}: {sentence}",
        hint="Correct the row at the source, or leave the column out or cast it with `source: {query: …}`.",
    )


def bad_query(name: str, text: str) -> ConfigError:
    """The statement cannot be run; `text` is the database's, which names things and shows no value."""
    return ConfigError(f"connection {name!r}: {text}", hint="Correct `query:` in tidegate.yaml.")


def login_refused(name: str, where: str) -> SourceRefused:
    """User and password are not those of the server."""
    return SourceRefused(
        f"connection {name!r}: {where} refused the login",
        hint="Correct user and password under `connections:`, then run `tidegate doctor`.",
    )


def limited(name: str, text: str) -> SourceError | None:
    """What the server refuses for now, by its own words."""
    limit = limit_of(text)
    return None if limit is None else limit.error(f"connection {name!r}: {limit.reason}")


def unreachable(name: str, where: str, reason: str) -> SourceUnavailable:
    """The server gave no answer of its own."""
    return SourceUnavailable(f"connection {name!r}: {where} cannot be reached: {reason}")


def no_connection(text: str) -> str:
    """Why there is no connection at all, by what the system says of it.

    Example:
        >>> no_connection("([Errno -2] Name or service not known)"), no_connection("(111) Connection refused")
        ('unknown host', 'connection refused')
    """
    known = {
        "errno -": "unknown host",  # what only looking up a name has
        "name or service": "unknown host",
        "name resolution": "unknown host",
        "getaddrinfo": "unknown host",
        "refused": "connection refused",
        "timed out": "timed out",
        "unreachable": "no route to the host",
        "no route": "no route to the host",
    }
    return next((reason for piece, reason in known.items() if piece in text.lower()), "no connection, or unknown host")


def out_of_time(name: str, limit: str, cure: str) -> SourceError:
    """The server ended a statement that took longer than it allows; the same statement would again.

    Args:
        limit: the server's setting.
        cure: the statement that raises it for the user of the connection.
    """
    return SourceError(
        f"connection {name!r}: the server ended a statement that took longer than its {limit} allows",
        hint=f"Raise it for the user that Tidegate connects as: `{cure}`; then run again.",
    )
