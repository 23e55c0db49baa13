"""Translates Oracle errors into Tidegate errors.

The server's message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import oracledb

from tidegate.core.cutting import first_line
from tidegate.core.refusals import marked_text
from tidegate.dialects.shared.errors import bad_query, bad_value, login_refused, unreachable
from tidegate.errors import (
    ColumnMissing,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

# Of the statement: the text holds names and never a value.
NAMES = frozenset({904, 942, 1435, 2289, 4043})
SYNTAX = frozenset(
    {900, 903, 905, 906, 907, 909, 911, 917, 918, 920, 921, 923, 932, 933, 934, 935, 936, 937, 938, 939, 960, 979, 1789}
)
DENIED = frozenset({1031, 41900})
LOGIN = frozenset({1005, 1017, 28000, 28001, 28009, 1045})
NUMBER = 1722
TOO_LONG = frozenset({1489, 12899, 40478})
TOO_OLD = frozenset({1555, 8180, 22924})
CHANGED = frozenset({1466, 8103, 8176})
PACKAGE = re.compile(r"(?i)\bdbms_flashback\b")
CUT = {
    18: "too many sessions",
    20: "too many processes",
    28: "the session was ended",
    54: "another session holds a lock on the table",
    60: "a deadlock, of which this statement was chosen as the victim",
    1012: "the session was ended",
    1013: "the statement was cancelled",
    1033: "the database is starting or stopping",
    1034: "the database is not started",
    1089: "the database is stopping",
    1090: "the database is stopping",
    1109: "the database is not open",
    1652: "the temporary tablespace is full",
    2391: "too many sessions of this user",
    2396: "the session was idle for too long",
    3113: "the connection was lost",
    3114: "the connection was lost",
    3135: "the connection was lost",
    4021: "another session holds a lock on the table",
    4031: "the server is out of memory",
    4068: "a package was changed",
    12514: "it does not know that service, or has not started it",
    12516: "it takes no more connections",
    12519: "it takes no more connections",
    12520: "it takes no more connections",
    12528: "the service takes no connections",
    12541: "no listener",
}
UNREACHED = (
    ("connection refused", "connection refused"),
    ("timed out", "timed out"),
    ("timeout", "timed out"),
    ("name or service not known", "unknown host"),
    ("nodename nor servname", "unknown host"),
    ("dpy-6001", "it does not know that service, or has not started it"),
    ("dpy-6003", "it does not know that service, or has not started it"),
)
UNVERIFIED = (
    ("certificate verify failed", "its certificate has expired, or is of an authority that is not trusted"),
    ("hostname mismatch", "its certificate is for another host"),
    ("dpy-6006", "its certificate is for another host"),
    ("wrong version number", "it offers no TLS at that port"),
)


@contextmanager
def translated_errors(name: str, user: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name and its login."""
    try:
        yield
    except oracledb.Error as error:
        raise translate(name, user, *number_and_text(error)) from error


def translate(name: str, user: str, number: int, text: str) -> TidegateError:  # noqa: PLR0911 - one answer a class
    """The error to raise instead of that number and text of the server; 0 for one of the driver's own."""
    if PACKAGE.search(text):
        return SourceError(
            f"connection {name!r}: this user may not use DBMS_FLASHBACK, by which all of a load is read at one moment",
            hint=f"Let an administrator run `GRANT EXECUTE ON SYS.DBMS_FLASHBACK TO {user}`, then `tidegate doctor`.",
        )
    if number == NUMBER:
        return _bad_number(name, text)
    if number in NAMES:
        hint = (
            f"If it is there, let its owner run `GRANT SELECT ON … TO {user}`; names are written as Oracle keeps them."
        )
        return ColumnMissing(f"connection {name!r}: {text}", hint=hint)
    if number in SYNTAX:
        return bad_query(name, text)
    if number in DENIED:
        hint = f"Let an administrator run `GRANT SELECT, FLASHBACK ON … TO {user}`, then `tidegate doctor`."
        return SourceError(f"connection {name!r}: {text}", hint=hint)
    if number in TOO_LONG:
        return SourceError(
            f"connection {name!r}: the text of a row is longer than VARCHAR2 allows, so it has no fingerprint",
            hint="Leave long columns out with `exclude:`, or set MAX_STRING_SIZE = EXTENDED at the server.",
        )
    if number in TOO_OLD:
        return SourceUnavailable(
            f"connection {name!r}: the server no longer keeps the rows of the snapshot (ORA-{number:05})",
            hint="Let an administrator raise UNDO_RETENTION above the time that a load takes, then run again.",
        )
    if number in CHANGED:
        return SourceMoved(f"connection {name!r}: the table was altered while it was being read")
    if number in CUT or number == 0:
        return SourceUnavailable(f"connection {name!r}: {CUT.get(number, 'the connection was lost')}")
    return SourceError(f"connection {name!r}: the server rejected the statement with ORA-{number:05}")


def _bad_number(name: str, text: str) -> SchemaRefused:
    """By the number that our own expressions fail with; most versions do not repeat their words."""
    bad = marked_text(text) or "a column holds a value that does not fit the type that `columns:` states for it"
    return bad_value(name, bad)


def refused(name: str, where: str, error: Exception) -> TidegateError:
    """Of a failed attempt to connect."""
    number, _ = number_and_text(error)
    words = f"{error} {error.__cause__ or ''}".lower()
    if reason := next((reason for piece, reason in UNVERIFIED if piece in words), None):
        return SourceRefused(
            f"connection {name!r}: {where} could not be verified: {reason}",
            hint="Name the authority of its certificate, `?sslrootcert=/path/to/ca.pem`, under a host name that the "
            "certificate has. In a network that you trust, `?sslmode=disable` does without TLS, at the port 1521.",
        )
    if number in LOGIN:
        return login_refused(name, where)
    if number == 12514 or "dpy-6001" in words or "dpy-6003" in words:
        return SourceRefused(f"connection {name!r}: {where}: {CUT[12514]}")
    reason = next((reason for piece, reason in UNREACHED if piece in words), None)
    return unreachable(name, where, reason or CUT.get(number, type(error).__name__))


def number_and_text(error: BaseException) -> tuple[int, str]:
    """The number of the server's error, 0 where the driver itself gave up, and the first line of its text."""
    found = error.args[0] if error.args else None
    number = getattr(found, "code", 0)
    return (number if isinstance(number, int) else 0), first_line(getattr(found, "message", "") or "")
