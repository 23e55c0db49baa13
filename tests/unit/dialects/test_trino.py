"""Trino without a server: addresses, errors, types, and a driver that is missing."""

from __future__ import annotations

import pytest

from tidegate.core.ids import Connection
from tidegate.dialects.trino.address import address_of
from tidegate.dialects.trino.errors import translate, unreachable
from tidegate.dialects.trino.types import column_of
from tidegate.errors import (
    ConfigError,
    SourceRefused,
)


@pytest.mark.parametrize(
    ("url", "port", "ssl", "properties"),
    [
        ("trino://me@h/cat", 8080, False, {}),
        ("trino://me@h:443/cat/s", 443, True, {"SSL": "true"}),
        ("trino://me:p%40ss@h/cat/s", 443, True, {"SSL": "true", "password": "p@ss"}),
        ("trino://me@h:8443/cat?ssl=true&verify=false", 8443, True, {"SSL": "true", "SSLVerification": "NONE"}),
        ("trino://me@h/cat?ssl=true&verify=/ca.pem", 443, True, {"SSL": "true", "SSLTrustStorePath": "/ca.pem"}),
        ("trino://me@[::1]:8080/cat?ssl=false", 8080, False, {}),
    ],
)
def test_url(url: str, port: int, ssl: bool, properties: dict[str, str]) -> None:
    found = address_of(Connection(name="tree", url=url))
    assert (found.port, found.ssl, found.catalog) == (port, ssl, "cat")
    jdbc = found.jdbc()
    fixed = {"driver": "io.trino.jdbc.TrinoDriver", "user": "me", "source": "tidegate"}
    assert jdbc.properties == {**fixed, **properties}
    host = "[::1]" if "::1" in url else "h"
    assert jdbc.url == f"jdbc:trino://{host}:{port}/cat{'/s' if found.schema else ''}"
    assert "p@ss" not in f"{found}{jdbc.url}"


@pytest.mark.parametrize(
    "url",
    [
        "trino://h/cat",
        "trino://me@h",
        "trino://me@h/a/b/c",
        "trino:///cat",
        "trino://me:secret@h:x/cat",
        "trino://me:secret@h/cat?ssl=false",
        "trino://me:secret@h/cat?tls=true",
        "trino://me:secret@h/cat?ssl=perhaps",
    ],
)
def test_url_that_says_too_little_or_too_much(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        address_of(Connection(name="tree", url=url))
    assert "secret" not in f"{refused.value}{refused.value.hint}"
    assert refused.value.__cause__ is None


def test_errors_name_no_value() -> None:
    from trino.exceptions import HttpError, TrinoConnectionError, TrinoUserError

    value = "Cannot cast 'hunter2' to INT"
    cast = TrinoUserError({"errorName": "INVALID_CAST_ARGUMENT", "errorType": "USER_ERROR", "message": value})
    assert str(translate("tree", cast)) == "connection 'tree': Trino rejected the statement with INVALID_CAST_ARGUMENT"
    full = TrinoUserError({"errorName": "QUERY_QUEUE_FULL", "errorType": "INSUFFICIENT_RESOURCES", "message": "x"})
    assert translate("tree", full).retryable
    denied = TrinoUserError({"errorName": "PERMISSION_DENIED", "errorType": "USER_ERROR", "message": "Cannot select"})
    assert "SELECT" in translate("tree", denied).hint
    assert isinstance(unreachable("tree", "h:1", HttpError("error 401: b'Unauthorized'")), SourceRefused)
    gone = unreachable("tree", "h:1", TrinoConnectionError("failed to resolve host"))
    assert gone.retryable
    # A port is no status.
    refused = unreachable("tree", "h:40123", TrinoConnectionError("port=40123): connection refused, error 40123"))
    assert refused.retryable
    assert "h:40123 cannot be reached: connection refused" in str(refused)


def test_type_that_is_known_is_exact() -> None:
    column = column_of("x", ("timestamp(9) with time zone", True), None)
    assert not isinstance(column, str)
    assert (column.type.spark, column.native) == ("timestamp", "timestamp(9) with time zone")
