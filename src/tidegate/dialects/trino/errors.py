"""Translates errors of Trino and its driver into Tidegate errors.

A message is never passed on where it could contain a row's value or a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from trino import exceptions

from tidegate.core.refusals import marked_text
from tidegate.dialects.shared import errors
from tidegate.dialects.shared.errors import bad_query, bad_value, login_refused
from tidegate.errors import ColumnMissing, SourceError, SourceUnavailable, TidegateError

MISSING = frozenset({"CATALOG_NOT_FOUND", "COLUMN_NOT_FOUND", "SCHEMA_NOT_FOUND", "TABLE_NOT_FOUND"})
# Said of the statement before it runs: the text holds names and never a value.
OF_STATEMENT = frozenset(
    {
        "AMBIGUOUS_NAME",
        "DUPLICATE_COLUMN_NAME",
        "EXPRESSION_NOT_AGGREGATE",
        "FUNCTION_NOT_FOUND",
        "INVALID_CATALOG_NAME",
        "MISSING_CATALOG_NAME",
        "MISSING_SCHEMA_NAME",
        "SYNTAX_ERROR",
        "TYPE_MISMATCH",
    }
)
DENIED = "PERMISSION_DENIED"
LOGIN = re.compile(r"error 40[13]\b")  # as the driver tells of an answer that is none of Trino's
# Another minute may bring another answer.
PASSING = frozenset({"EXTERNAL", "INSUFFICIENT_RESOURCES", "INTERNAL_ERROR"})


@contextmanager
def translated_errors(name: str, where: str) -> Iterator[None]:
    """Turns every driver error inside into one of ours, for the connection of that name to that server."""
    try:
        yield
    except exceptions.TrinoQueryError as error:
        raise translate(name, error) from error
    except exceptions.TrinoAuthError as error:
        raise login_refused(name, where) from error
    except (exceptions.Error, exceptions.HttpError, requests.RequestException) as error:
        raise unreachable(name, where, error) from error


def translate(name: str, error: exceptions.TrinoQueryError) -> TidegateError:
    """The error to raise instead of one that Trino gave for a statement."""
    code, text = error.error_name or "", error.message
    if bad := marked_text(text):
        return bad_value(name, bad)
    if code in MISSING:
        return ColumnMissing(f"connection {name!r}: {text}")
    if code in OF_STATEMENT:
        return bad_query(name, text)
    if code == DENIED:
        return SourceError(
            f"connection {name!r}: {text}", hint="Grant the user SELECT on it, then run `tidegate doctor`."
        )
    found = SourceUnavailable if error.error_type in PASSING else SourceError
    return found(f"connection {name!r}: Trino rejected the statement with {code or type(error).__name__}")


def unreachable(name: str, where: str, error: Exception) -> TidegateError:
    """Of a server that gave no answer of Trino's."""
    text = str(error).lower()
    if LOGIN.match(text):
        return login_refused(name, where)
    known = (
        ("certificate", "its certificate is not trusted"),
        ("ssl", "TLS failed"),
        ("refused", "connection refused"),
        ("timed out", "timed out"),
        ("resolve", "unknown host"),
        ("name or service not known", "unknown host"),
    )
    reason = next((reason for piece, reason in known if piece in text), type(error).__name__)
    return errors.unreachable(name, where, reason)
