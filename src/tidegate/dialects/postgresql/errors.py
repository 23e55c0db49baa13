"""Translates PostgreSQL errors into Tidegate errors.

The driver's message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from tidegate.core.refusals import marked_text
from tidegate.dialects.shared.errors import bad_query, bad_value, limited, login_refused, out_of_time, unreachable
from tidegate.dialects.shared.tls import unverified
from tidegate.errors import (
    ColumnMissing,
    SourceError,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

DENIED = re.compile(r"permission denied for (?P<kind>[a-z ]+?) (?P<name>\S.*)")
NO_ENTRY = re.compile(r'permission denied for database "(?P<name>[^"]+)"')
POLICY = "affected by row-level security policy"
PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
# Syntax errors and unknown names, found before a row is read: the text holds words of the statement, and no value.
NAMES_ONLY = "42"

UNVERIFIED = {
    "certificate verify failed": "its certificate has expired, or is of an authority that is not trusted",
    "does not match host name": "its certificate is for another host",
    "server does not support ssl": "it offers no TLS",
    "root certificate file": "the file of `sslrootcert` cannot be read",
}


@contextmanager
def translated_errors(name: str, user: str, schemas_of: Callable[[str], list[str]] = lambda _: []) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name and its login.

    Args:
        schemas_of: the schemas, quoted, in which this login may not read the relation of a name: PostgreSQL denies by
            the name alone.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translate(name, error, user, schemas_of) from error


def translate(  # noqa: C901, PLR0911 - one answer a class of errors
    name: str, error: psycopg.Error, user: str, schemas_of: Callable[[str], list[str]]
) -> TidegateError:
    """The error to raise instead."""
    text = (error.diag.message_primary or "").strip()
    if bad := marked_text(text):
        return bad_value(name, bad)
    if limit := limited(name, str(error)):
        return limit
    match error:
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return ColumnMissing(f"connection {name!r}: {text}")
        case errors.InsufficientPrivilege() if POLICY in text:
            return SourceError(
                f"connection {name!r}: {text}, and the login {user} would read a part of the rows as if it were all",
                hint=f"Let an administrator run `ALTER ROLE {quoted(user)} BYPASSRLS`; or connect as the owner of the "
                "table, unless it has FORCE ROW LEVEL SECURITY; or load a view of that owner's which states the rows "
                "that are wanted.",
            )
        case errors.InsufficientPrivilege():
            hint = f"Let an administrator run `{_grant(text, user, schemas_of)}`, then `tidegate doctor`."
            return SourceError(f"connection {name!r}: {text}", hint=hint)
        case _ if (error.sqlstate or "").startswith(NAMES_ONLY) and error.diag.statement_position:
            return bad_query(name, text)
        case errors.CharacterNotInRepertoire() | errors.UntranslatableCharacter():
            return SourceError(
                f"connection {name!r}: a text in the table is not valid in the encoding of the database, or not UTF-8",
                hint="Correct those rows (`SELECT … WHERE convert_to(…, 'UTF8') IS NULL` stops at the first), or leave "
                "the column out with `exclude:`.",
            )
        case errors.QueryCanceled() if "statement timeout" in text:
            return out_of_time(name, "statement_timeout", "ALTER ROLE … SET statement_timeout = 0")
        case errors.QueryCanceled():
            return SourceUnavailable(f"connection {name!r}: an administrator cancelled the statement")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return SourceUnavailable(f"connection {name!r}: {_reason(error)}")
        case _:
            return SourceError(
                f"connection {name!r}: PostgreSQL rejected the statement with {type(error).__name__} {error.sqlstate}"
            )


def refused(name: str, where: str, error: psycopg.Error) -> TidegateError:
    """Of a failed attempt to connect."""
    text = " ".join(str(error).lower().split())
    if reason := next((reason for piece, reason in UNVERIFIED.items() if piece in text), None):
        return unverified(name, where, reason)
    if limit := limited(name, str(error)):
        return limit
    if found := NO_ENTRY.search(str(error)):
        return SourceRefused(
            f"connection {name!r}: {where} does not let the login into database {found['name']!r}",
            hint=f"Let an administrator run `GRANT CONNECT ON DATABASE {quoted(found['name'])} TO …`, then "
            "`tidegate doctor`.",
        )
    login = "password authentication failed" in text or "no password supplied" in text or "role" in text
    if login:
        return login_refused(name, where)
    if "does not exist" in text:
        return SourceRefused(f"connection {name!r}: {where} has no such database")
    return unreachable(name, where, _reason(error))


def _grant(text: str, user: str, schemas_of: Callable[[str], list[str]]) -> str:
    """The statement that grants what PostgreSQL said was denied."""
    found = DENIED.fullmatch(text)
    if found is None:
        return f"GRANT SELECT ON … TO {quoted(user)}"
    kind, name = found["kind"], quoted(found["name"])
    if kind in (rights := {"database": "CREATE ON", "schema": "USAGE ON", "function": "EXECUTE ON"}):
        return f"GRANT {rights[kind]} {kind.upper()} {name} TO {quoted(user)}"
    schemas = schemas_of(found["name"])
    within = schemas[0] if len(schemas) == 1 else "…"
    return f"GRANT SELECT ON {'SEQUENCE ' if kind == 'sequence' else ''}{within}.{name} TO {quoted(user)}"


def quoted(name: str) -> str:
    """A name as a statement holds it."""
    return name if PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _reason(error: psycopg.Error) -> str:
    text = " ".join(str(error).lower().split())
    known = (
        ("connection refused", "connection refused"),
        ("timeout", "timed out"),
        ("starting up", "the server is starting"),
        ("shutting down", "the server is shutting down"),
        ("terminating connection", "the connection was lost"),
        ("closed", "the connection was lost"),
        ("could not translate host name", "unknown host"),
        ("failed to resolve host", "unknown host"),
        ("no pg_hba.conf entry", "the server does not allow this login from this host"),
        ("ssl", "TLS was refused"),
    )
    return next((reason for piece, reason in known if piece in text), f"{type(error).__name__} {error.sqlstate or ''}")
