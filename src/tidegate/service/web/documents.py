"""`/api/v1`: the JSON documents of the commands, and an OpenAPI document that describes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidegate.core.secret_names import redacted
from tidegate.engine.overview import recorded
from tidegate.engine.savings import savings as made_savings
from tidegate.errors import TidegateError
from tidegate.service.web.facts import Line
from tidegate.service.web.state import State

MOST = 1000
RUNS, TASKS, DAYS = 20, 100, 30
"""What `limit` and `days` are where the address does not say."""


class BadParameter(ValueError):
    """A parameter of the address that is no number within the bounds; its text says what is possible."""


def refuse(request: Request, error: Exception) -> Response:
    """Answers a `BadParameter`, as the commands do."""
    problem = {"code": "usage", "message": str(error), "hint": "`/api/v1/openapi.json` describes the parameters."}
    return JSONResponse({"error": redacted(problem, _state(request).service.project.config.redact)}, status_code=400)


def status(request: Request) -> Response:
    """As `status --json`, by what the registry alone knows: lag of logs and quarantines stay unknown."""
    state = _state(request)
    project, registry = state.service.project, state.service.registry

    def document() -> dict[str, Any]:
        found = recorded(project.config, project.lakes, registry.status(), datetime.now(UTC))
        # Of a table that has rows only its quarantine could tell how many wait there.
        known = (replace(each, rows_quarantined=None if each.sequence else 0) for each, _ in found)
        return {"streams": [each.to_dict() for each in known]}

    return _answer(request, document)


def history(request: Request) -> Response:
    """As `history STREAM --json`."""
    registry, limit = _state(request).service.registry, _number(request, "limit", RUNS)
    return _of_stream(
        request,
        lambda line: {
            "stream": line.name,
            "runs": [run.to_dict() for run in registry.history(line.status.uid, limit)],
        },
    )


def tasks(request: Request) -> Response:
    """As `tasks STREAM --json`."""
    registry, limit = _state(request).service.registry, _number(request, "limit", TASKS)
    return _of_stream(
        request, lambda line: {"tasks": [each.to_dict() for each in registry.tasks(line.status.uid, limit=limit)]}
    )


def intervals(request: Request) -> Response:
    """As `status STREAM --json`."""

    def document(line: Line) -> dict[str, Any]:
        found = _state(request).service.registry.intervals(line.status.uid)
        parts, gaps = ([part.to_dict() for part in each] for each in (found.parts, found.gaps))
        return {"stream": line.name, "intervals": parts, "gaps": gaps}

    return _of_stream(request, document)


def table(request: Request) -> Response:
    """As `show STREAM --json`."""
    project = _state(request).service.project
    return _of_stream(request, lambda line: project.show(line.name).to_dict())


def proof(request: Request) -> Response:
    """As `proof --json`, by the tables that were read in the background; `table_read` is false where none was yet."""
    state = _state(request)
    return _answer(request, lambda: state.proofs(state.facts.lines()).to_dict())


def savings(request: Request) -> Response:
    """As `savings --json`, by the sizes of tables that were read in the background; null where none was yet."""
    state, since = _state(request), datetime.now(UTC) - timedelta(days=_number(request, "days", DAYS))
    streams = [line.status for line in state.facts.lines()]
    known = state.tables.known([each.stream for each in streams if each.sequence])
    rows = {name: view.rows for name, view in known.items()}
    return _answer(request, lambda: made_savings(state.service.registry, streams, rows, since).to_dict())


def backfills(request: Request) -> Response:
    """As `backfill list --json`, of one stream."""
    kept = _state(request).service.project.registry.backfills
    return _of_stream(request, lambda line: {"backfills": [each.to_dict() for each in kept.all_of([line.status.uid])]})


def memory(request: Request) -> Response:
    """What the process holds."""
    return _answer(request, lambda: {"memory_bytes": _state(request).service.memory()})


def _of_stream(request: Request, document: Callable[[Line], dict[str, Any]]) -> Response:
    """The document of the stream that the path names."""
    state, name = _state(request), request.path_params["name"]
    line = state.facts.line(name)
    if line is not None:
        return _answer(request, lambda: document(line))
    problem = {"code": "not_found", "message": f"there is no stream {name!r}", "hint": "See /api/v1/status."}
    return JSONResponse({"error": redacted(problem, state.service.project.config.redact)}, status_code=404)


def _answer(request: Request, document: Callable[[], dict[str, Any]]) -> Response:
    redact = _state(request).service.project.config.redact
    try:
        return JSONResponse(redacted(document(), redact))
    except TidegateError as error:
        return JSONResponse({"error": redacted(error.to_dict(), redact)}, status_code=409)


def _number(request: Request, name: str, usual: int) -> int:
    given = request.query_params.get(name)
    if given is None:
        return usual
    if given.isascii() and given.isdecimal() and len(given) < 7 and 1 <= int(given) <= MOST:
        return int(given)
    raise BadParameter(f"{name} must be a whole number from 1 to {MOST}, not {given[:40]!r}")


def _state(request: Request) -> State:
    state: State = request.app.state.tidegate
    return state
