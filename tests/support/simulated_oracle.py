"""Oracle at its driver's border; see `simulated`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import oracledb
from oracledb.errors import _Error
from sqlglot import exp

from support.simulated import SimulatedServer, in_duckdb

URL = "oracle://loader:s3cr3t@127.0.0.1/SHOP"
NUMBER, VARCHAR = oracledb.DB_TYPE_NUMBER, oracledb.DB_TYPE_VARCHAR


def server() -> SimulatedServer:
    """A primary with an empty schema `SHOP`, whose user may see every session."""
    found = SimulatedServer(translated=lambda sql: in_duckdb(sql, "oracle", _made), failed=failed)
    found.database.execute("SET TimeZone = 'UTC'; CREATE SCHEMA SHOP; CREATE TABLE dual AS SELECT 'X' AS dummy")
    found.on("get_system_change_number", [("4711",)])
    found.on("DATABASE_ROLE", [("PRIMARY",)])
    found.on("NLS_CHARACTERSET", [("AL32UTF8",)])
    found.on(r"gv\$transaction", [])
    found.on(r"FROM gv\$session s WHERE", [])
    found.on("count.DISTINCT inst_id", [(1,)])
    found.on("dba_2pc_pending", [])
    found.on("FROM all_synonyms", [])
    found.on("FROM all_tables WHERE", [(1000, 80)])
    return found


def column(name: str, kind: Any, *, precision: int = 0, scale: int = 0, size: int = 0, null_ok: bool = True) -> Any:
    """What the driver says of a column of a result."""
    return SimpleNamespace(
        name=name, type_code=kind, precision=precision, scale=scale, internal_size=size, null_ok=null_ok
    )


def error(code: int, message: str) -> oracledb.DatabaseError:
    """As the driver raises an error of the server."""
    found = _Error(message=message, code=code)
    return found.exc_type(found)


def failed(found: duckdb.Error) -> BaseException:
    """As the server and its driver say it."""
    if isinstance(found, duckdb.CatalogException):
        return error(942, 'ORA-00942: table or view "SHOP"."GONE" does not exist')
    if isinstance(found, duckdb.ConversionException):
        return error(1722, f"ORA-01722: unable to convert string value to a number: {found}".replace("\n", " "))
    return AssertionError(str(found))


def _made(node: exp.Expression) -> exp.Expression:  # noqa: C901, PLR0911, PLR0912 - one answer a word
    match node:
        case exp.Literal(this="", is_string=True):
            return exp.null()  # an empty text is NULL
        case exp.DPipe():
            return _function("concat", node.this, node.expression)  # and adds nothing
        case exp.StandardHash():
            return _function("md5", node.this)
        case exp.ConvertToCharset():
            return node.this
        case exp.Anonymous() if node.name.lower() == "nlssort":
            return node.expressions[0]
        case exp.Anonymous() if node.name.lower() == "rawtohex":
            value = node.expressions[0]
            return value if isinstance(value, exp.Anonymous) and value.name == "md5" else _function("hex", value)
        case exp.Anonymous() if node.name.lower() == "from_tz":
            return _function("timezone", exp.Literal.string("UTC"), node.expressions[0])
        case exp.ToNumber() if node.args.get("format") is not None:
            return exp.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=node.this.copy()), "BIGINT")
        case exp.ToNumber():
            return exp.cast(node.this, "DECIMAL(38,0)")
        case exp.StrToTime(this=exp.Literal()):
            text = node.this.name.replace(" +00:00", "+00:00")
            return exp.cast(exp.Literal.string(text), "TIMESTAMPTZ" if "+" in text else "TIMESTAMP")
        case exp.TimeToStr() if "FF9" in node.args["format"].name:
            shape = node.args["format"].name.replace("FF9", "%f")
            return _function("strftime", node.this, exp.Literal.string(shape))
        case exp.ToChar():
            return exp.cast(node.this, "TEXT")
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _function("date_trunc", exp.Literal.string("day"), node.this)
        case exp.Cast() if node.to.is_type("timestamp") and node.to.expressions:
            return exp.cast(node.this, "TIMESTAMP")
        case _:
            return node


def _function(name: str, *values: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[value.copy() for value in values])
