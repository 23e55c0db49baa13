"""A table of orders in MariaDB, and sessions that write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pymysql

from tidegate.core.ids import Connection
from tidegate.sources.database import Database

if TYPE_CHECKING:
    from support.mariadb import MariadbServer


ORDERS = """
CREATE TABLE orders (
  id bigint AUTO_INCREMENT PRIMARY KEY, name text NOT NULL, updated_at timestamp(6) NOT NULL DEFAULT now(6)
)
"""
INSERT = "INSERT INTO orders (name) VALUES (%s)"


@dataclass(kw_only=True)
class Writers:
    """A database with a table of orders, and sessions that write it."""

    server: MariadbServer
    database: str
    sessions: list[pymysql.Connection] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url(self.database)

    def session(self) -> Callable[..., tuple]:
        connection = self.server.connect(self.database)
        self.sessions.append(connection)

        def execute(sql: str, values: list | None = None) -> tuple:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.fetchall()

        return execute

    def rows(self) -> dict[int, str]:
        return dict(self.session()("SELECT id, name FROM orders"))


def source(url: str, table: str = "hard", **options) -> Database:
    if "query" not in options:
        options["table"] = table
    return Database(connection=Connection(name="server", url=url), **options)
