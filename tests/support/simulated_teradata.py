"""Teradata at its driver's border; see `simulated`."""

from __future__ import annotations

import duckdb
import teradatasql
from sqlglot import exp

from support.simulated import SimulatedServer, in_duckdb

URL = "teradata://loader:s3cr3t@127.0.0.1/SHOP"
PLAN = "First, we lock SHOP.ORDERS for read on a reserved RowHash to prevent global deadlock."


def server() -> SimulatedServer:
    """A server with an empty database `SHOP`."""
    found = SimulatedServer(translated=lambda sql: in_duckdb(sql, "teradata", _made), failed=failed)
    found.database.execute("SET TimeZone = 'UTC'; CREATE SCHEMA SHOP")
    found.on("^EXPLAIN", [(PLAN,)])
    found.on("CreateTimeStamp", [("2025-01-31 12:00:00",)])
    return found


def describe(found: SimulatedServer, table: str, columns: dict[str, str]) -> None:
    """Scripts what the server says of the columns of a table, or of a query of all of them; the first is not NULL."""
    made = [(name, str, None, None, None, None, place > 0) for place, name in enumerate(columns)]
    found.describe(rf'"{table}"\s[^=]*WHERE 1 = 0', made)
    found.on(rf'SELECT TYPE.*LEFT JOIN [^=]*"SHOP"."{table}"', [tuple(columns.values())])


def error(number: int, text: str) -> teradatasql.OperationalError:
    """As the driver raises an error of the server."""
    head = f"[Version 20.0.0.72] [Session 1000] [Teradata Database] [Error {number}] "
    return teradatasql.OperationalError(f"{head}{text}\n at gosqldriver/teradatasql.formatError ErrorUtil.go:84")


def failed(found: duckdb.Error) -> BaseException:
    """As the server and its driver say it."""
    if isinstance(found, duckdb.CatalogException):
        return error(3807, "Object 'SHOP.GONE' does not exist.")
    return AssertionError(str(found))


def _made(node: exp.Expression) -> exp.Expression:  # noqa: C901, PLR0911, PLR0912 - one answer a word
    match node:
        case exp.Anonymous() if node.name.lower() == "transunicodetoutf8":
            return node.expressions[0]
        case exp.Anonymous() if node.name.lower() == "hash_md5":
            return _function("md5", *node.expressions)
        case exp.Anonymous() if node.name.lower() == "oreplace":
            return _function("replace", *node.expressions)
        case exp.Anonymous() if node.name.lower() == "from_bytes":
            return _function("hex", node.expressions[0])
        case exp.Anonymous() if node.name.lower() == "to_number":
            return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=node.expressions[0].copy()), "BIGINT")
        case exp.Div():  # of whole numbers a whole one
            return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
        case exp.ToNumber():
            return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=node.this.copy()), "BIGINT")
        case exp.TimeToStr() if "FF6" in node.args["format"].name:
            shape = node.args["format"].name.replace("FF6", "%f")
            return _function("strftime", node.this, exp.Literal.string(shape))
        case exp.ToChar() if "YYYY" in node.args["format"].name:
            shape = node.args["format"].name
            for word, code in (("YYYY", "%Y"), ("MM", "%m"), ("DD", "%d"), ("HH24", "%H"), ("MI", "%M"), ("SS", "%S")):
                shape = shape.replace(word, code)
            return _function("strftime", node.this, exp.Literal.string(shape.replace("FF6", "%f")))
        case exp.ToChar():
            return exp.cast(node.this, "TEXT")
        case exp.Cast() if node.to.is_type("time", "timestamp", "varchar"):
            kind = node.to.this.name if node.to.this is not exp.DType.VARCHAR else "TEXT"
            made = exp.cast(node.this, kind)
            whole = kind == "TEXT" and isinstance(node.this, exp.Cast) and node.this.to.is_type("time")
            return _function("strftime", exp.Add(this=_day(), expression=node.this), _shape()) if whole else made
        case _:
            return node


def _day() -> exp.Expression:
    return exp.cast(exp.Literal.string("2000-01-01"), "DATE")


def _shape() -> exp.Expression:
    return exp.Literal.string("%H:%M:%S.%f")


def _function(name: str, *values: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[value.copy() for value in values])
