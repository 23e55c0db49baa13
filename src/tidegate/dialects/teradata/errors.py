"""Translates Teradata errors into Tidegate errors.

The server's message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import teradatasql

from tidegate.core.cutting import first_line
from tidegate.dialects.shared.errors import bad_query, login_refused, unreachable
from tidegate.dialects.shared.tls import unverified
from tidegate.errors import ColumnMissing, SourceError, SourceRefused, SourceUnavailable, TidegateError

NUMBER = re.compile(r"\[Error (\d+)\]")
HEAD = re.compile(r"^(?:\[[^\]]*\] *)+")
DRIVERS = "[Teradata SQL Driver]"
# Of the statement: the text holds names and never a value.
NAMES = frozenset({3802, 3807, 3810, 3822, 5628})
SYNTAX = frozenset({3504, 3550, 3569, 3627, 3654, 3706, 3707, 3708, 3709, 3731, 3733, 3782, 3809})
DENIED = frozenset({3523, 3524, 5315})
REFUSED = re.compile(r"does not have (?P<right>[A-Z ]+?) access to (?P<name>[\w$.\"]+)")
LOGIN = frozenset({3003, 3004, 8017, 8055})
NO_FUNCTION = frozenset({5589, 9881})
TOO_LONG = frozenset({3798, 9804})
NO_SPOOL = 2646
CUT = {
    2631: "a deadlock, of which this statement was chosen as the victim",
    2639: "too many transactions",
    2652: "the table is being loaded",
    2654: "the table is being loaded",
    2825: "the request was ended by a restart of the database",
    2826: "the request was ended by a restart of the database",
    2828: "the request was ended by a restart of the database",
    3110: "the transaction was ended by an administrator",
    3111: "the dispatcher did not answer in time",
    3120: "the request was ended by a restart of the database",
    3130: "too many responses are open",
    3156: "the workload management ended the request",
    3598: "another session changed the dictionary",
    3603: "another session changed the table's definition",
    7423: "another session holds a lock on the table",
    7583: "the parser could not allocate memory",
    8018: "the session was ended",
}
UNREACHED = (
    ("hostname lookup failed", "unknown host"),
    ("connection refused", "connection refused"),
    ("timed out", "timed out"),
    ("timeout", "timed out"),
    ("failed to connect", "no connection"),
)
UNVERIFIED = (
    ("certificate signed by unknown authority", "its certificate is of an authority that is not trusted"),
    ("certificate has expired", "its certificate has expired"),
    ("certificate is valid for", "its certificate is for another host"),
    ("doesn't contain any ip sans", "its certificate is for another host"),
    ("failed to verify certificate", "its certificate is not trusted"),
    ("sslca", "the file of `sslrootcert` cannot be read"),
)


@contextmanager
def translated_errors(name: str, user: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name and its login."""
    try:
        yield
    except teradatasql.Error as error:
        raise translate(name, user, error) from error


def translate(name: str, user: str, error: Exception) -> TidegateError:  # noqa: PLR0911 - one answer a class of errors
    """The error to raise instead."""
    number, text = number_of(error), HEAD.sub("", first_line(error))
    if number in NO_FUNCTION and "hash_md5" in text.lower():
        return SourceError(
            f"connection {name!r}: the function hash_md5 is not installed, by which rows are compared",
            hint="Let an administrator install Teradata's download `hash_md5` in SYSLIB, then run again.",
        )
    if number in NAMES:
        return ColumnMissing(f"connection {name!r}: {text}")
    if number in SYNTAX or number in NO_FUNCTION:
        return bad_query(name, text)
    if number in DENIED:
        found = REFUSED.search(text)
        grant = f"GRANT {found['right']} ON {found['name'].rstrip('.')}" if found else "GRANT SELECT ON …"
        hint = f"Let an administrator run `{grant} TO {user}`, then `tidegate doctor`."
        return SourceError(f"connection {name!r}: {text}", hint=hint)
    if number in TOO_LONG:
        return SourceError(
            f"connection {name!r}: the text of a row is longer than a VARCHAR, so it has no fingerprint",
            hint="Leave long columns out with `source: {exclude: […]}`.",
        )
    if number == NO_SPOOL:
        return SourceError(
            f"connection {name!r}: the statement needs more spool space than the user has",
            hint=f"Let an administrator run `MODIFY USER {user} AS SPOOL = … BYTES`, then run again.",
        )
    if number in CUT or DRIVERS in str(error):
        return SourceUnavailable(f"connection {name!r}: {CUT.get(number, 'the connection was lost')}")
    return SourceError(f"connection {name!r}: the server rejected the statement with error {number}")


def refused(name: str, where: str, error: Exception) -> TidegateError:
    """Of a failed attempt to connect."""
    number, words = number_of(error), str(error).lower()
    if reason := next((reason for piece, reason in UNVERIFIED if piece in words), None):
        return unverified(name, where, reason)
    if number in LOGIN and DRIVERS not in str(error):
        return login_refused(name, where)
    if number in NAMES:
        return SourceRefused(f"connection {name!r}: {where} has no such database")
    reason = next((reason for piece, reason in UNREACHED if piece in words), None)
    return unreachable(name, where, reason or CUT.get(number, f"error {number}"))


def number_of(error: Exception) -> int:
    """The number of an error of the server or the driver; 0 without one."""
    found = NUMBER.search(str(error))
    return int(found[1]) if found else 0
