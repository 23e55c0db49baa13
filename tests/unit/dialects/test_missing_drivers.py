"""A database whose driver is not installed: the error names the extra that brings it."""

from __future__ import annotations

import builtins
import sys

import pytest

from tidegate import plugins
from tidegate.core.ids import Connection
from tidegate.errors import EnvironmentMissing


@pytest.mark.parametrize(
    ("kind", "package", "url"),
    [
        ("oracle", "oracledb", "oracle://me@127.0.0.1:1/shop"),
        ("snowflake", "snowflake", "snowflake://me:pw@acme/shop"),
        ("sqlserver", "pymssql", "sqlserver://me@127.0.0.1:1/shop"),
        ("teradata", "teradatasql", "teradata://me@127.0.0.1:1/shop"),
        ("trino", "trino", "trino://me@127.0.0.1:1/memory"),
    ],
)
def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, kind: str, package: str, url: str) -> None:
    dialect = plugins.dialect_of(kind)()
    monkeypatch.delitem(sys.modules, f"tidegate.dialects.{kind}.session", raising=False)
    real = builtins.__import__

    def without(name: str, *rest):
        if name.split(".", maxsplit=1)[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing) as missing:
        dialect.open(Connection(name="c", url=url))
    assert f"the extra `{kind}`: `" in missing.value.hint
