"""Translates MariaDB errors into Tidegate errors.

The server's message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from tidegate.core.refusals import marked_text
from tidegate.dialects.shared.errors import (
    bad_query,
    bad_value,
    limited,
    login_refused,
    no_connection,
    out_of_time,
    unreachable,
)
from tidegate.dialects.shared.tls import unverified
from tidegate.errors import (
    ColumnMissing,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

REFUSED = re.compile(r"(?P<privilege>[A-Z ]+?) command denied to user '.*'@'.*' for table (?P<table>.+)")
OUT_OF_RANGE = 1690
NAMES = frozenset({1049, 1051, 1054, 1109, 1146})  # no such database, table or column: the text holds names only
SYNTAX = frozenset({1064, 1149, 1305, 1582})
DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
LOGIN = frozenset({1045, 1698, 4151})
CHANGED = frozenset({1412})  # the definition changed after the snapshot was taken
TIMED_OUT = {
    1969: ("max_statement_time", "ALTER USER … WITH MAX_STATEMENT_TIME 0"),
    3024: ("max_execution_time", "SET GLOBAL max_execution_time = 0"),
}
FULL = dict.fromkeys((1040, 1203, 1226), "too many connections")
CUT = {
    1053: "the server is shutting down",
    1129: "the server blocks this host",
    1130: "the server does not allow logins from this host",
    1205: "another session holds a lock on the table",
    1213: "a deadlock",
    1317: "the statement was killed",
    1927: "the connection was lost",
    2002: "no connection",
    2003: "no connection",
    2006: "the connection was lost",
    2013: "the connection was lost",
    2026: "TLS was refused",
}

UNREACHED = frozenset({2002, 2003})
UNVERIFIED = {
    "Hostname mismatch": "its certificate is for another host",
    "IP address mismatch": "its certificate is for another host",
    "certificate has expired": "its certificate has expired",
    "certificate verify failed": "its certificate is of an authority that is not trusted",
    "server doesn't support it": "it offers no TLS",
}


@contextmanager
def translated_errors(name: str, account: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name.

    Args:
        account: whom the server takes the user for, see `account`.
    """
    try:
        yield
    except pymysql.Error as error:
        raise translate(name, error, account) from error
    except UnicodeDecodeError as error:
        raise SchemaRefused(f"connection {name!r}: a string is not valid UTF-8") from error


def translate(name: str, error: pymysql.Error, account: str) -> TidegateError:  # noqa: PLR0911 - one answer a class of errors
    """The error to raise instead."""
    number, text = code_of(error), str(error.args[1]) if len(error.args) > 1 else ""
    if number == OUT_OF_RANGE and (bad := marked_text(text)):
        return bad_value(name, bad)
    if number in NAMES:
        return ColumnMissing(f"connection {name!r}: {text}")
    if number in SYNTAX:
        return bad_query(name, text)
    if number in DENIED:
        hint = f"Let an administrator run `{_grant(text, account)}`, then `tidegate doctor`."
        return SourceError(f"connection {name!r}: {text}", hint=hint)
    if number in TIMED_OUT:
        return out_of_time(name, *TIMED_OUT[number])
    if number in FULL and (full := limited(name, FULL[number])):
        return full
    if number in CHANGED:
        return SourceMoved(f"connection {name!r}: the table was altered while it was being read")
    if number in CUT or isinstance(error, pymysql.InterfaceError):
        return SourceUnavailable(f"connection {name!r}: {CUT.get(number, 'the connection was lost')}")
    return SourceError(f"connection {name!r}: the server rejected the statement with {type(error).__name__} {number}")


def refused(name: str, where: str, error: pymysql.Error | OSError) -> TidegateError:
    """Of a failed attempt to connect; the driver reads the file of authorities without an error of its own."""
    number, text = code_of(error), str(error)
    reason = next((reason for piece, reason in UNVERIFIED.items() if piece in text), None)
    if reason is not None or isinstance(error, OSError):
        return unverified(name, where, reason or "the file of `sslrootcert` cannot be read")
    if number in LOGIN:
        return login_refused(name, where)
    if number in NAMES or number in DENIED:
        return SourceRefused(f"connection {name!r}: {where} has no such database, or this user may not use it")
    if number in FULL and (full := limited(name, FULL[number])):
        return full
    if number in UNREACHED:
        return unreachable(name, where, no_connection(text))
    return unreachable(name, where, CUT.get(number, f"{type(error).__name__} {number}"))


def account(user: str) -> str:
    """The account as a grant names it, from `CURRENT_USER()`: its host is the one that it may come from.

    Errors name the host that the client came from, of which there need be no account.

    Example:
        >>> account("loader@%"), account("o'neil@10.0.0.%")
        ("'loader'@'%'", "'o''neil'@'10.0.0.%'")
    """
    return "@".join("'" + part.replace("'", "''") + "'" for part in user.rsplit("@", 1))


def _grant(text: str, account: str) -> str:
    """The statement that grants what the server said was denied."""
    found = REFUSED.match(text)
    if found is None:
        return f"GRANT SELECT ON … TO {account}"
    table = found["table"]  # MySQL puts it between apostrophes
    named = "`" + table[1:-1].replace("`", "``") + "`" if table.startswith("'") else table
    return f"GRANT {found['privilege']} ON {named} TO {account}"


def code_of(error: BaseException | None) -> int:
    """The server's number of an error; 0 where it has none."""
    number = error.args[0] if isinstance(error, pymysql.Error) and error.args else 0
    return number if isinstance(number, int) else 0
