"""Translates SQL Server errors into Tidegate errors.

The server's message is never passed on where it could contain a row's value or a secret. Sessions speak English, so
that its words are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymssql

from tidegate.core.refusals import marked_text
from tidegate.dialects.shared.errors import bad_query, bad_value, login_refused, no_connection, unreachable
from tidegate.errors import ColumnMissing, SourceError, SourceMoved, SourceRefused, SourceUnavailable, TidegateError

# By the numbers of sys.messages; the texts of these hold names and never a value.
NAMES = frozenset({207, 208, 2812, 4104})
SYNTAX = frozenset({102, 105, 156, 195, 319, 402, 1033, 4145, 8114, 8117, 8120, 8155, 8156, 8158})
DENIED = frozenset({229, 230, 262, 297, 300, 371, 916})
LOGIN = frozenset({4060, 18452, 18456, 18486, 18487, 18488})
CONVERSION = frozenset({245, 248, 8115})
CHANGED = frozenset({3960, 3961, 3962})
NO_SNAPSHOT = 3952
IN_MEMORY = frozenset({41331, 41332, 41333})
SNAPSHOT_TOO_OLD = frozenset({3958, 3966, 3967})
CUT = {
    596: "the session was ended",
    601: "the table was changed while it was scanned",
    701: "the server is out of memory",
    802: "the server is out of memory",
    845: "the server's disks are too slow",
    983: "the database is a secondary that allows no reads",
    1105: "the database is full",
    1205: "a deadlock, of which this statement was chosen as the victim",
    1222: "another session holds a lock on the table",
    3314: "the database is recovering",
    6005: "the server is shutting down",
    6107: "the session was ended",
    9001: "the log of the database is not available",
    10053: "the connection was lost",
    10054: "the connection was lost",
    10928: "the limit of the service is reached",
    10929: "the limit of the service is reached",
    17142: "the server is paused",
    17809: "too many connections",
    18461: "the server allows one administrator alone",
    20002: "it broke off the connection, or its certificate is not trusted",
    20003: "timed out",
    20004: "the connection was lost",
    20006: "the connection was lost",
    20009: "no connection",
    20047: "the connection was lost",
    40197: "the service is busy with an update",
    40501: "the service is busy",
    40613: "the database is not available at the moment",
    49918: "the service is busy",
    49919: "the service is busy",
    49920: "the service is busy",
}
OBJECT = re.compile(
    r"The (?P<right>[A-Z ]+) permission was denied on the (?:object|column) '(?P<name>[^']+)'"
    r"(?: of the object '(?P<of>[^']+)')?, database '[^']+', schema '(?P<schema>[^']+)'"
)
SERVER = re.compile(r"(?P<right>VIEW [A-Z ]+?STATE) permission was denied")
SEE_SERVER = 20018  # by which the driver points at the server's error
OF_DRIVER = re.compile(r"DB-Lib error message (\d+)")


@contextmanager
def translated_errors(name: str, user: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name and its login."""
    try:
        yield
    except pymssql.Error as error:
        raise translate(name, user, *number_and_text(error)) from error


def translate(name: str, user: str, number: int, text: str) -> TidegateError:  # noqa: PLR0911 - one answer a class
    """The error to raise instead of that number and text of the server."""
    if number in CONVERSION and (bad := marked_text(text)):
        return bad_value(name, bad)
    if number in NAMES:
        return ColumnMissing(f"connection {name!r}: {text}")
    if number in SYNTAX:
        return bad_query(name, text)
    if number in DENIED:
        hint = f"Let an administrator run `{_grant(text, user)}`, then `tidegate doctor`."
        return SourceError(f"connection {name!r}: {text}", hint=hint)
    if number == NO_SNAPSHOT:
        return SourceError(f"connection {name!r}: {text}", hint="Allow snapshots with the statement of docs/sources.")
    if number in IN_MEMORY:
        return SourceError(
            f"connection {name!r}: a table in memory cannot be read in a snapshot",
            hint="Read a copy of it on disk, or another table.",
        )
    if number in SNAPSHOT_TOO_OLD:
        return SourceUnavailable(
            f"connection {name!r}: the server no longer keeps the rows of the snapshot, because tempdb is full",
            hint="Enlarge tempdb, or load while fewer rows are written, then run again.",
        )
    if number in CHANGED:
        return SourceMoved(f"connection {name!r}: the table was altered while it was being read")
    if number in CUT or number == 0:
        return SourceUnavailable(f"connection {name!r}: {CUT.get(number, 'the connection was lost')}")
    return SourceError(f"connection {name!r}: the server rejected the statement with error {number}")


def refused(name: str, where: str, error: pymssql.Error, *, verified: bool) -> TidegateError:
    """Of a failed attempt to connect; the driver gives no reason where the server's certificate is the cause.

    Args:
        verified: whether the server has to prove who it is.
    """
    number, text = number_and_text(error)
    if number == 4060 or "Cannot open database" in text:
        return SourceRefused(f"connection {name!r}: {where} has no such database, or this login may not use it")
    if number in LOGIN or "Login failed" in text:
        return login_refused(name, where)
    if number == 20002 and verified:
        return SourceRefused(
            f"connection {name!r}: {where} could not be verified, or broke off the connection",
            hint="Name the authority of its certificate, `?sslmode=verify-full&sslrootcert=/path/to/ca.pem`, under a "
            "host name that the certificate has. In a network that you trust, `?sslmode=require` encrypts without "
            "verifying.",
        )
    if number in (0, 20009):  # of a host that it does not find the driver gives neither number nor reason
        return unreachable(name, where, no_connection(text))
    return unreachable(name, where, CUT.get(number, f"error {number}"))


def number_and_text(error: pymssql.Error) -> tuple[int, str]:
    """Number and text of the server's error, from either form in which the driver raises it; 0 without one."""
    found = error.args
    if found and isinstance(found[0], tuple):
        found = found[0]
    number = found[0] if found and isinstance(found[0], int) else 0
    text = found[1] if len(found) > 1 else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    own = OF_DRIVER.match(text)
    if own is not None and int(own[1]) != SEE_SERVER:
        # The number may still be that of the server's error before, on another connection.
        return int(own[1]), text
    # The driver's own words stand behind those of the server.
    return number, OF_DRIVER.split(text, maxsplit=1)[0].strip() if own is None else ""


def quoted(name: str) -> str:
    """A name as a statement holds it."""
    return f"[{name.replace(']', ']]')}]"


def _grant(text: str, user: str) -> str:
    """The statement that grants what the server said was denied."""
    if found := OBJECT.search(text):
        return f"GRANT {found['right']} ON {quoted(found['schema'])}.{quoted(found['of'] or found['name'])} TO {user}"
    if found := SERVER.search(text):
        return f"GRANT {found['right']} TO {user}"
    return f"GRANT SELECT ON … TO {user}"
