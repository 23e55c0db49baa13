"""Translates errors of Snowflake and its driver into Tidegate errors.

A message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from snowflake.connector import errors as driver

from tidegate.core.cutting import LONGEST_LINE, cut
from tidegate.core.refusals import marked_text
from tidegate.dialects.shared.errors import bad_query, bad_value, login_refused, out_of_time, unreachable
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

MISSING = frozenset({904, 2003, 2043})  # names only: an invalid identifier, no such object or no privilege for it
SYNTAX = frozenset({1003, 2140, 2141, 2262})  # said of the statement before it runs: no row's value
NO_CONTEXT = frozenset({90105, 90106})
NO_WAREHOUSE = frozenset({606, 90073})
DENIED = frozenset({3001, 3011, 3540})
TIMED_OUT = frozenset({604, 630})
# The table has no state of that moment: replaced since, or no longer kept.
NO_HISTORY = frozenset({707, 709})
BAD_KEY = frozenset({251008})
EXPIRED = frozenset({390110, 390111, 390112, 390114, 390115})
LOGIN = re.compile(
    r"incorrect username or password|jwt token is invalid|oauth|access token|authentication|"
    r"user .* (is )?(locked|disabled)|programmatic access",
    re.IGNORECASE,
)
NETWORK_POLICY = re.compile(r"not allowed to access snowflake|network policy", re.IGNORECASE)
ROLE = re.compile(r"role .* specified in the connect string", re.IGNORECASE)
NO_ACCOUNT = re.compile(r"\b(403|404)\b|verify the account name", re.IGNORECASE)


@contextmanager
def translated_errors(name: str, where: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name to that account."""
    try:
        yield
    except driver.Error as error:
        raise translate(name, where, error) from error


def translate(name: str, where: str, error: driver.Error) -> TidegateError:  # noqa: C901, PLR0911 - one answer a class
    """The error to raise instead of one that came of a statement."""
    number, text = code_of(error), error.msg or ""
    if bad := marked_text(text):
        return bad_value(name, bad)
    if number in MISSING:
        return ColumnMissing(f"connection {name!r}: {_last_line(text)}")
    if number in NO_CONTEXT:
        return ConfigError(
            f"connection {name!r}: no schema is known", hint="Name it: `table: SCHEMA.TABLE`, or in the URL."
        )
    if number in NO_WAREHOUSE:
        return SourceRefused(
            f"connection {name!r}: no warehouse runs the statement",
            hint="Name one in the URL, `?warehouse=LOAD_WH`, and grant it: `GRANT USAGE ON WAREHOUSE … TO ROLE …`.",
        )
    if number in DENIED:
        return SourceError(
            f"connection {name!r}: the role may not do this",
            hint="Grant it what docs/sources/snowflake.md lists, then run `tidegate doctor`.",
        )
    if number in NO_HISTORY:
        return SourceMoved(
            f"connection {name!r}: the table's state at the beginning of the load is gone: the table was replaced "
            "meanwhile, or Time Travel keeps it for a shorter time than the load takes",
            hint="Run again; if it comes back, raise DATA_RETENTION_TIME_IN_DAYS of the table.",
        )
    if number in TIMED_OUT:
        return out_of_time(
            name, "STATEMENT_TIMEOUT_IN_SECONDS", "ALTER USER … SET STATEMENT_TIMEOUT_IN_SECONDS = 86400"
        )
    if number in SYNTAX:
        return bad_query(name, _last_line(text))
    if number in EXPIRED:
        return SourceUnavailable(f"connection {name!r}: the session at {where} has expired")
    if isinstance(error, driver.OperationalError) or not isinstance(error, driver.DatabaseError):
        return unreachable(name, where, f"{type(error).__name__} {number}")
    return SourceError(f"connection {name!r}: Snowflake rejected the statement with {number} ({error.sqlstate})")


def refused(name: str, where: str, error: Exception) -> TidegateError:
    """Of a failed attempt to connect."""
    text, number = str(error), code_of(error) if isinstance(error, driver.Error) else 0
    if not isinstance(error, driver.Error) or number in BAD_KEY:
        return SourceRefused(
            f"connection {name!r}: the private key cannot be read",
            hint="It is PKCS #8 in PEM; an encrypted one needs `private_key_file_pwd=` beside `private_key_file=`.",
        )
    if ROLE.search(text):
        return SourceRefused(
            f"connection {name!r}: the user has no such role",
            hint="Correct `?role=` in the URL, or `GRANT ROLE … TO USER …`.",
        )
    if NETWORK_POLICY.search(text):
        return SourceRefused(
            f"connection {name!r}: {where} accepts no login from this address",
            hint="Let an administrator add it to the network policy of the account or the user.",
        )
    if LOGIN.search(text):
        return login_refused(name, where)
    if NO_ACCOUNT.search(text):
        return SourceRefused(
            f"connection {name!r}: there is no account at {where}",
            hint="Correct the account in the URL: `SELECT CURRENT_ORGANIZATION_NAME() || '-' || CURRENT_ACCOUNT_NAME()`"
            " tells it.",
        )
    return unreachable(name, where, f"{type(error).__name__} {number}" if number else type(error).__name__)


def code_of(error: driver.Error) -> int:
    """Snowflake's number of an error; 0 where it has none."""
    return error.errno if isinstance(error.errno, int) and error.errno > 0 else 0


def _last_line(text: str) -> str:
    """What Snowflake says of a name, below the lines that say where it stands."""
    lines = text.strip().splitlines() or ["no message"]
    return cut(lines[-1], LONGEST_LINE)
