"""Actions: each a POST with the token of its form, recorded with who did it."""

from __future__ import annotations

from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tidegate.errors import TidegateError
from tidegate.service.web.guard import Guard
from tidegate.service.web.port import Action
from tidegate.service.web.state import State

ACTIONS = (*Action, "pause", "resume", "acknowledge")
LONGEST = 10_000
"""Bytes of a form; none of ours is larger."""


async def act(request: Request) -> Response:
    """Does what a form of a page asks for, and shows the stream."""
    state: State = request.app.state.tidegate
    guard: Guard = request.app.state.guard
    if int(request.headers.get("content-length") or LONGEST + 1) > LONGEST:
        return state.message(request, "Too large", "The form is too large.", status=413)
    form = await request.form()
    if not guard.is_form(request.scope["session"], request.url.path, str(form.get("form", ""))):
        text = "The form does not carry the token of this session."
        return state.message(request, "Refused", text, hint="Open the page again and repeat.", status=403)
    name, action = str(form.get("stream", "")), request.path_params["action"]
    if action not in ACTIONS or state.facts.line(name) is None:
        return state.message(request, "Not found", f"There is no {name!r} to {action}.", status=404)
    try:
        await run_in_threadpool(do, state, action, name, request.scope["who"])
    except TidegateError as error:
        return state.message(request, error.code, error.message, hint=error.hint, status=409)
    return RedirectResponse(f"/streams/{quote(name, safe='')}?done={action}", status_code=303)


async def act_by_api(request: Request) -> Response:
    """The same for programs, which send the token in the Authorization header."""
    state: State = request.app.state.tidegate
    if request.scope["session"] != "bearer":
        problem = {"code": "forbidden", "message": "actions of the API need the token in the Authorization header"}
        return JSONResponse({"error": {**problem, "hint": "Send `Authorization: Bearer TOKEN`."}}, status_code=403)
    name, action = request.path_params["name"], request.path_params["action"]
    if action not in ACTIONS or state.facts.line(name) is None:
        problem = {"code": "not_found", "message": f"there is no {name!r} to {action}", "hint": ""}
        return JSONResponse({"error": problem}, status_code=404)
    try:
        await run_in_threadpool(do, state, action, name, request.scope["who"])
    except TidegateError as error:
        redact = state.service.project.config.redact
        document = {key: redact(text) for key, text in error.to_dict().items()}
        return JSONResponse({"error": document}, status_code=409)
    return JSONResponse({"stream": name, "action": action, "by": request.scope["who"]}, status_code=202)


def do(state: State, action: str, stream: str, who: str) -> None:
    """Asks the service for it; the next page shows what it did."""
    service = state.service
    others = {"pause": service.pause, "resume": service.resume, "acknowledge": service.acknowledge}
    if action in others:
        others[action](stream, who)
    else:
        service.request(Action(action), stream, who)
    state.facts.forget()
