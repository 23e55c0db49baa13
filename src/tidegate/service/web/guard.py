"""Lets in who may see the dashboard, and sends the headers that keep other sites out.

Every request passes here before any page is made. Rejections say what is missing and nothing of the project.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass, field
from secrets import token_bytes
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.service.web.settings import WebSettings

log = logging.getLogger("tidegate")

COOKIE = "tidegate_session"
OPEN = frozenset({"/healthz"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(slots=True)
class Guard:
    """The outermost layer of the application."""

    app: ASGIApp
    settings: WebSettings
    key: bytes = field(default_factory=lambda: token_bytes(32), repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or passes on to the application with `scope["who"]` and `scope["session"]` set."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        rejection, answer = self._rejection(scope), _Answer(send)
        try:
            await (rejection or self.app)(scope, receive, answer)
        except Exception as error:
            log.warning("dashboard: %s at %s", type(error).__name__, scope["path"])
            log.debug("the error of a page", exc_info=error)
            if answer.begun:  # nothing else tells the browser that it is not whole
                raise
            await _failure(scope)(scope, receive, answer)

    def _rejection(self, scope: Scope) -> Response | None:
        request = Request(scope)
        if _host(request.headers) not in self.settings.allowed_hosts:
            return PlainTextResponse("The Host header names no host of this dashboard.\n", status_code=400)
        if request.url.path in OPEN:
            return None
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method != "GET":
            return PlainTextResponse("Requests of other sites are refused.\n", status_code=403)
        if request.method == "GET" and (given := request.query_params.get("token")) is not None:
            return self._login(request, given)
        scope["who"], scope["session"] = self._known(request)
        if not scope["who"]:
            return PlainTextResponse(
                "Open the dashboard with the link that was printed when it was started.\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        return None

    def _login(self, request: Request, given: str) -> Response:
        if not self._is_token(given):
            return PlainTextResponse("The token is not that of this dashboard.\n", status_code=401)
        kept = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
        path = "/" + request.url.path.lstrip("/\\")  # never another host
        answer = RedirectResponse(path + (f"?{urlencode(kept)}" if kept else ""), status_code=303)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(COOKIE, self._session(), httponly=True, samesite="strict", secure=secure, path="/")
        return answer

    def _known(self, request: Request) -> tuple[str, str]:
        """Who it is, and the session that forms are bound to; empty for nobody."""
        if self.settings.user_header and (user := request.headers.get(self.settings.user_header, "").strip()):
            return f"{user[:200]} (dashboard)", user
        client = request.client.host if request.client else "unknown"
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return f"token (API, {client})", "bearer"
        session = request.cookies.get(COOKIE, "")
        if self.settings.token and _same(session, self._session()):
            return f"token (dashboard, {client})", session
        return "", ""

    def _is_token(self, given: str) -> bool:
        return bool(self.settings.token) and _same(given, self.settings.token)

    def _session(self) -> str:
        return self._sign("session")

    def form_token(self, session: str, path: str) -> str:
        """What a form of this session has to carry, so that it can be sent to this path alone."""
        return self._sign(f"form\n{session}\n{path}")

    def is_form(self, session: str, path: str, given: str) -> bool:
        return _same(given, self.form_token(session, path))

    def _sign(self, text: str) -> str:
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _host(headers: Headers) -> str:
    """The name in the Host header, without its port."""
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _failure(scope: Scope) -> Response:
    """The answer where the dashboard itself has failed; says nothing of the project."""
    message = "the dashboard failed; its log names the error"
    if scope["path"].startswith("/api/"):
        problem = {"code": "internal", "message": message, "hint": "Start it with `--log-level debug`."}
        return JSONResponse({"error": problem}, status_code=500)
    return PlainTextResponse(f"{message.capitalize()}.\n", status_code=500)


@dataclass(slots=True)
class _Answer:
    """Sends an answer with the headers."""

    send: Send
    begun: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self.send(message)
