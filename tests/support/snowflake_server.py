"""A server that speaks Snowflake's protocol to the real drivers: fakesnow, and Time Travel, which it lacks.

Started as a program of its own by `support.snowflake`. Statements are answered by DuckDB, so it proves what drivers,
sessions and Spark do, and not that Snowflake itself knows every word.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

server = importlib.import_module("fakesnow.server")  # the package has a function of that name
NAME = r'(?:"(?:[^"]|"")+"|\w+)'
ANCHOR = re.compile(rf"SELECT 1 FROM ({NAME}(?:\.{NAME})*) LIMIT 0")
TRAVEL = re.compile(rf"({NAME}(?:\.{NAME})*) AT\(STATEMENT => '([0-9a-f-]+)'\)")
REPLACED = re.compile(rf"\s*CREATE OR REPLACE TABLE ({NAME}(?:\.{NAME})*)", re.IGNORECASE)
# What fakesnow 0.12 does not translate, in words that it does.
WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Lists of what it keeps none of.
    (
        re.compile(r"^SELECT (\w+) FROM .*information_schema\.(sequences|functions|procedures|stages|file_formats) .*"),
        r"SELECT NULL AS \1 WHERE 1 = 0",
    ),
    (re.compile(r"^ALTER SESSION SET \w+ = \d+$"), "SELECT 'Statement executed successfully.'"),
    (re.compile(r'sum\("tidegate digest"\)'), 'sum("tidegate digest"::number(38, 0))'),
    (re.compile(r"current_warehouse\(\)"), "'LOAD_WH'"),
)
FORMATS = {
    "YYYY-MM-DD HH24:MI:SS.FF9": ("to_char(", "strftime({}, '%Y-%m-%d %H:%M:%S.%n')"),
    "HH24:MI:SS.FF9": ("to_char(", "strftime('1970-01-01'::date + {}, '%H:%M:%S.%n')"),
    "XXXXXXXX": ("to_number(", "('0x' || {})::bigint"),
}
CATALOG = re.compile(r"^SELECT to_char.*created.*, retention_time, .* table_name = '(\w+)'$")
RETENTION = re.compile(r"^ALTER TABLE (\w+) SET DATA_RETENTION_TIME_IN_DAYS = (\d+)$")
HYBRID = re.compile(r"^CREATE HYBRID TABLE (\w+)")
# As Snowflake answers a login: the code, and the message.
LOGINS = {
    "wrong": ("390100", "Incorrect username or password was specified."),
    "nowhere": ("390189", "Role 'NOBODY' specified in the connect string does not exist or not authorized."),
    "outside": ("390422", "Incoming request with IP/Token 192.0.2.1 is not allowed to access Snowflake."),
}
states: dict[str, str] = {}
days: dict[str, str] = {}
hybrid: set[str] = set()
logins: list[dict[str, Any]] = []
gone: set[str] = set()


async def sent_by(request: Request) -> dict[str, Any]:
    """The body of a request."""
    body = await request.body()
    return json.loads(gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body)


async def login(request: Request) -> Response:
    """Whoever has no password of LOGINS is let in; what a driver asks for is kept."""
    sent = await sent_by(request)
    asked = {name.upper(): value for name, value in sent["data"]["SESSION_PARAMETERS"].items()}
    logins.append({"driver": sent["data"]["CLIENT_APP_ID"], "asked": asked})
    if sent["data"].get("LOGIN_NAME", "").lower() == "tidegate_nobody":
        return refused(*LOGINS["wrong"])
    if sent["data"].get("PASSWORD") in LOGINS:
        return refused(*LOGINS[sent["data"]["PASSWORD"]])
    return await server.login_request(again(request, sent))


async def query(request: Request) -> Response:
    """One statement: its words translated, the state of its table kept if it is one that others travel to."""
    sent = await sent_by(request)
    sql = sent["sqlText"]
    if found := RETENTION.match(sql):
        days[found[1]] = found[2]
        sql = "SELECT 'Statement executed successfully.'"
    if found := HYBRID.match(sql):
        hybrid.add(found[1])
        sql = sql.replace("HYBRID ", "", 1)
    if found := CATALOG.match(sql):
        sql = sql.replace("retention_time", days.get(found[1], "retention_time"))
        sql = sql.replace("is_hybrid", "'YES'" if found[1] in hybrid else "is_hybrid")
    for found in TRAVEL.finditer(sql):
        if found[2] in gone or states.get(found[2]) != found[1]:
            return refused("000707", f"Time travel data is not available for table {found[1]}.")
    sent["sqlText"] = translated(sql)
    answered = await server.query_request(again(request, sent))
    said = json.loads(bytes(answered.body))
    if said.get("success"):
        if replaced := REPLACED.match(sql):
            gone.update(key for key, name in states.items() if name.rpartition(".")[2].strip('"') == last(replaced[1]))
        if (anchor := ANCHOR.fullmatch(sql)) and not sent.get("describeOnly"):
            key = said["data"]["queryId"]
            copy = f'CREATE TABLE history.public."{key}" AS SELECT * FROM {anchor[1]}'
            kept = await server.query_request(again(request, {"sqlText": copy}))
            assert json.loads(bytes(kept.body))["success"], kept.body
            states[key] = anchor[1]
    return answered


def last(name: str) -> str:
    """The last part of a name, as Snowflake keeps it."""
    part = re.findall(NAME, name)[-1]
    return part.strip('"') if part.startswith('"') else part.upper()


def translated(sql: str) -> str:
    """The same for fakesnow."""
    sql = TRAVEL.sub(r'history.public."\2"', sql)
    for pattern, words in WORDS:
        sql = pattern.sub(words, sql)
    for pattern, (call, words) in FORMATS.items():
        while (end := sql.find(f", '{pattern}')")) >= 0:
            start = beginning(sql, end) - len(call)
            value = sql[start:end].removeprefix(call)
            sql = f"{sql[:start]}{words.format(value)}{sql[end + len(pattern) + 5 :]}"
    return re.sub(r"number\(38, ?0\)", "hugeint", sql)  # of which fakesnow would keep 64 bits


def beginning(sql: str, end: int) -> int:
    """Where the first argument of a call begins that ends there."""
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(sql[place], 0)
        if depth < 0:
            return place + 1
    raise ValueError(sql)


def again(request: Request, body: dict[str, Any]) -> Request:
    """The same request with another body."""
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-encoding"]
    sent = json.dumps(body).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent, "more_body": False}

    return Request({**request.scope, "headers": headers}, receive)


def refused(code: str, message: str) -> Response:
    """An error, as Snowflake sends it."""
    data = {"errorCode": code, "sqlState": "02000"}
    return JSONResponse({"data": data, "code": code, "message": message, "success": False})


def main(port: int) -> None:
    """Serves at that port of this machine."""
    start = server.shared_fs.connect("DB", "S")
    start.cursor().execute("CREATE DATABASE history")
    start.cursor().execute("CREATE SCHEMA IF NOT EXISTS history.public")
    ours = {"/queries/v1/query-request": query, "/session/v1/login-request": login}
    routes = [
        Route(route.path, ours[route.path], methods=["POST"]) if route.path in ours else route
        for route in server.routes
    ]
    routes.append(Route("/logins", lambda _: JSONResponse(logins), methods=["GET"]))
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
