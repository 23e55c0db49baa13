"""SQL Server at its driver's border; see `simulated`."""

from __future__ import annotations

from typing import Any

import duckdb
import pymssql
from sqlglot import exp

from support.simulated import SimulatedServer, in_duckdb

URL = "sqlserver://loader:s3cr3t@127.0.0.1/shop"
TEXTS = (exp.DPipe, exp.Chr, exp.Left, exp.Lower, exp.Replace, exp.Substring, exp.MD5, exp.Concat)


def server() -> SimulatedServer:
    """A server with an empty schema `dbo`, which allows snapshots and whose login may see every session."""
    found = SimulatedServer(translated=lambda sql: in_duckdb(sql, "tsql", made), failed=failed)
    found.database.execute("CREATE SCHEMA dbo")
    script(found)
    return found


def script(found: SimulatedServer) -> None:
    """What a server says of itself, unless a test has said otherwise before."""
    found.database.execute("SET TimeZone = 'UTC'")
    already, found.scripted = found.scripted, []
    found.on("FROM sys.databases", [(1, "READ_WRITE", "loader")])
    found.on("serverproperty", [(3, 16, "(UTC) Coordinated Universal Time", 1, 0, 0, 0)])
    found.on("sys.dm_tran_active_transactions", [])
    found.on("is_masked", [])
    found.on("database_recovery_status", [("8E3F1B70-0000-4000-8000-000000000001", 901578250)])
    found.on("@@DBTS", [(2001,)])
    found.on("sys.partitions", [(1000, 50)])
    found.scripted = [*already, *found.scripted]


def describe(found: SimulatedServer, table: str, columns: dict[str, str]) -> None:
    """Scripts what the server says of a table's columns; the first one is not NULL."""
    rows = [(name, native, place > 0, None, None) for place, (name, native) in enumerate(columns.items())]
    found.on(rf"dm_exec_describe_first_result_set\(N'SELECT \* FROM [^,]*\[{table}\]", rows)


def failed(error: duckdb.Error) -> BaseException:
    """As the server and its driver say it."""
    if isinstance(error, duckdb.CatalogException):
        return pymssql.ProgrammingError((208, b"Invalid object name 'dbo.gone'."))
    if isinstance(error, duckdb.ConversionException):
        return pymssql.OperationalError((245, f"Conversion failed when converting {error}".encode()))
    return AssertionError(str(error))


def made(node: exp.Expression) -> exp.Expression:  # noqa: C901, PLR0911, PLR0912 - one answer a word
    match node:
        case exp.Collate() | exp.TimeStrToTime():
            return node.this
        case exp.National():
            return exp.Literal.string(node.name)
        case exp.Convert():
            return _converted(node.args["expression"], node.this, node.args.get("style"))
        case exp.HexString(this="00000000"):  # before eight digits that become a number
            return exp.Literal.string("0x")
        case exp.Cast() if node.to.this == exp.DType.BINARY:  # a row version, which is a number here
            return node.this
        case exp.Cast() if node.to.this == exp.DType.VARBINARY:
            return node.this if isinstance(node.this, exp.Column) else _function("encode", node.this)
        case exp.Cast() if node.to.this in (exp.DType.VARCHAR, exp.DType.NVARCHAR, exp.DType.TEXT):
            return exp.cast(node.this, "TEXT")
        case exp.Cast() if node.to.expressions and node.to.this is not exp.DType.DECIMAL:
            return exp.cast(node.this, exp.DataType(this=node.to.this))
        case exp.DateDiff() if node.unit.name.upper() == "MICROSECOND":
            return _function("epoch_us", node.this)
        case exp.DateAdd() if node.unit.name.upper() == "NANOSECOND":
            return node.this
        case exp.Anonymous() if node.name.lower() == "switchoffset":
            return exp.cast(_function("timezone", exp.Literal.string("UTC"), node.expressions[0]), "TIMESTAMP")
        case exp.Add() if _is_text(node.this) or _is_text(node.expression):
            return exp.DPipe(this=node.this.copy(), expression=node.expression.copy())
        case _:
            return node


def _converted(value: exp.Expression, to: Any, style: exp.Expression | None) -> exp.Expression:
    kind, number = to.this, style.name if style is not None else ""
    if number == "2" and kind is exp.DType.VARBINARY:
        return value
    if number == "2":
        return value if isinstance(value, exp.MD5) else _function("hex", value)
    if number == "23":
        return _function("strftime", value, exp.Literal.string("%Y-%m-%d"))
    length = to.expressions[0].name
    if length == "23":
        text = _function("strftime", value, exp.Literal.string("%Y-%m-%d %H:%M:%S.%f"))
        return exp.Left(this=text, expression=exp.Literal.number(23))
    time = length == "16"
    shape = "%H:%M:%S.%f" if time else "%Y-%m-%d %H:%M:%S.%f"
    moment = exp.Add(this=exp.cast(exp.Literal.string("2000-01-01"), "DATE"), expression=value) if time else value
    return exp.DPipe(this=_function("strftime", moment, exp.Literal.string(shape)), expression=exp.Literal.string("0"))


def _function(name: str, *values: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[value.copy() for value in values])


def _is_text(node: exp.Expression | None) -> bool:
    match node:
        case exp.Literal():
            return bool(node.is_string)
        case exp.Cast():
            return bool(node.to.this in (exp.DType.TEXT, exp.DType.VARCHAR))
        case exp.Coalesce() | exp.Trim() | exp.Paren():
            return _is_text(node.this)
        case exp.Case():
            return any(_is_text(each.args["true"]) for each in node.args["ifs"])
        case exp.Anonymous():
            return node.name in ("strftime", "hex")
        case _:
            return isinstance(node, TEXTS)
