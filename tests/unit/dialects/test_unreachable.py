"""Servers that cannot be reached: each driver's own words become the same few."""

from __future__ import annotations

import pymssql
import pymysql
import pytest

from tidegate.dialects.mariadb.errors import refused as mariadb
from tidegate.dialects.sqlserver.errors import refused as sqlserver


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Can't connect to MySQL server on 'h' ([Errno -2] Name or service not known)", "unknown host"),
        ("Can't connect to MySQL server on 'h' ([Errno -3] Temporary failure in name resolution)", "unknown host"),
        ("Can't connect to MySQL server on 'h' ([Errno 111] Connection refused)", "connection refused"),
        ("Can't connect to MySQL server on 'h' (timed out)", "timed out"),
        ("Can't connect to MySQL server on 'h' ([Errno 113] No route to host)", "no route to the host"),
    ],
)
def test_mariadb(said: str, reason: str) -> None:
    found = mariadb("shop", "h:3306", pymysql.OperationalError(2003, said))
    assert found.message == f"connection 'shop': h:3306 cannot be reached: {reason}"


def test_sqlserver_of_a_host_that_nobody_knows() -> None:
    said = pymssql.InterfaceError("Connection to the database failed for an unknown reason.")
    found = sqlserver("shop", "h:1433", said, verified=False)
    assert found.message == "connection 'shop': h:1433 cannot be reached: no connection, or unknown host"
