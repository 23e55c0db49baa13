"""What can go wrong with any database, in the same words."""

from __future__ import annotations

from tidegate.errors import ConfigError, SchemaRefused, SourceRefused, SourceUnavailable


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


def unreachable(name: str, where: str, reason: str) -> SourceUnavailable:
    """The server gave no answer of its own."""
    return SourceUnavailable(f"connection {name!r}: {where} cannot be reached: {reason}")
