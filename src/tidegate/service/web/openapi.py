"""The OpenAPI document of `/api/v1`, made of the types of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import tidegate
from tidegate.core.intervals import Interval
from tidegate.core.table_facts import TableFacts
from tidegate.engine.proof import Comparison
from tidegate.engine.table_view import TableView
from tidegate.registry.values import PartitionDay, RunRecord, StreamStatus, TaskRecord
from tidegate.service.web.actions import ACTIONS
from tidegate.service.web.documents import DAYS, MOST, RUNS, TASKS

TEXT, NUMBER, OBJECT = {"type": "string"}, {"type": "number"}, {"type": "object"}
COUNT: dict[str, Any] = {"type": "integer"}
Schema = dict[str, Any]


def openapi(*, read_only: bool) -> Callable[[Request], Response]:
    """The endpoint that answers with the document."""
    made = document(read_only=read_only)
    return lambda _: JSONResponse(made)


def document(*, read_only: bool) -> Schema:
    """The document, in OpenAPI 3.1."""
    paths = {
        "/api/v1/status": _get("Every stream, as `tidegate status --json`", {"streams": _many("StreamStatus")}),
        "/api/v1/proof": _get("What is proven, as `tidegate proof --json`", _report("made_at", "version")),
        "/api/v1/savings": _get(
            "What was not read, as `tidegate savings --json`",
            {**_report("since"), "days": _many("PartitionDay")},
            days=DAYS,
        ),
        "/api/v1/memory": _get("Memory of the process", {"memory_bytes": _maybe(COUNT)}),
        "/api/v1/streams/{name}/history": _get(
            "Runs, as `tidegate history STREAM --json`", {"stream": TEXT, "runs": _many("RunRecord")}, limit=RUNS
        ),
        "/api/v1/streams/{name}/tasks": _get(
            "Tasks, as `tidegate tasks STREAM --json`", {"tasks": _many("TaskRecord")}, limit=TASKS
        ),
        "/api/v1/streams/{name}/intervals": _get(
            "The interval ledger, as `tidegate status STREAM --json`",
            {"stream": TEXT, "intervals": _many("Interval"), "gaps": _many("Interval")},
        ),
        "/api/v1/streams/{name}/table": _get("The table, as `tidegate show STREAM --json`", None, schema="TableView"),
        "/api/v1/streams/{name}/backfills": _get(
            "Backfills, as `tidegate backfill list STREAM --json`", {"backfills": {"type": "array", "items": OBJECT}}
        ),
    }
    for path, item in paths.items():
        if "{name}" in path:
            item["parameters"] = [_parameter("name", "path", TEXT)]
    if not read_only:
        paths["/api/v1/streams/{name}/{action}"] = _action()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidegate", "version": tidegate.__version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": _schemas()},
    }


def _schemas() -> Schema:
    found: Schema = {}
    for kind in (StreamStatus, RunRecord, TaskRecord, PartitionDay, Interval, TableView, TableFacts, Comparison):
        made = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        found |= made.pop("$defs", {})
        found[kind.__name__] = made
    # The facts of a table stand beside its other values.
    view, facts = found["TableView"]["properties"], found.pop("TableFacts")["properties"]
    view.pop("facts")
    found["TableView"] = _object({**view, **facts})
    found["Error"] = _object({"error": _object({"code": TEXT, "message": TEXT, "hint": TEXT})})
    return found


def _get(summary: str, values: Schema | None, *, schema: str = "", **numbers: int) -> Schema:
    """A request.

    Args:
        numbers: parameters with a lower and an upper bound, and what they are unless given.
    """
    answer = {"$ref": f"#/components/schemas/{schema}"} if values is None else _object(values)
    bounds = {**COUNT, "minimum": 1, "maximum": MOST}
    asked = [_parameter(name, "query", {**bounds, "default": usual}) for name, usual in numbers.items()]
    refused = ("400",) if numbers else ()
    responses = {"200": _answer("The document", answer), "401": {"description": "No token"}}
    return {"get": {"summary": summary, "parameters": asked, "responses": responses | _errors(*refused, "404", "409")}}


def _action() -> Schema:
    names = {"type": "string", "enum": [str(action) for action in ACTIONS]}
    done = _answer("Taken on", _object({"stream": TEXT, "action": TEXT, "by": TEXT}))
    return {
        "parameters": [_parameter("name", "path", TEXT), _parameter("action", "path", names)],
        "post": {"summary": "Asks for an action", "responses": {"202": done} | _errors("403", "404", "409")},
    }


def _report(*texts: str) -> Schema:
    return {**dict.fromkeys(texts, TEXT), "streams": {"type": "array", "items": OBJECT}}


def _errors(*codes: str) -> Schema:
    return {code: _answer("The error", {"$ref": "#/components/schemas/Error"}) for code in codes}


def _answer(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _many(name: str) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(values: Schema) -> Schema:
    return {"type": "object", "properties": values, "required": list(values), "additionalProperties": False}
