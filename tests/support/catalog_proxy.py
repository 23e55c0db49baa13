"""Between Tidegate and a REST catalog: answers of the catalog's that a test chooses, and a login whose tokens expire.

Asked for by tests of faults. Passes everything on until a fault is set, and remembers what it was asked.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.http_server import serving

TOKENS = "/v1/oauth/tokens"
PASSED_ON = ("content-type", "x-iceberg-access-delegation", "if-none-match", "idempotency-key")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client asks of the catalog; the names of headers are in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def updates(self) -> list[dict[str, Any]]:
        """The changes of a table that a commit asks for; none where it is no commit."""
        if self.method != "POST" or "/tables/" not in self.path:
            return []
        found: list[dict[str, Any]] = json.loads(self.body).get("updates", [])
        return found


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the client is told."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


def error(status: int, kind: str, message: str = "chosen by the test") -> Answer:
    """An answer in the words of the REST specification."""
    return Answer(
        status=status, body=json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()
    )


Fault = Callable[[Request, Callable[[Request], Answer]], Answer]
"""What becomes of a request; its second argument asks the catalog."""


def healthy(request: Request, ask: Callable[[Request], Answer]) -> Answer:
    """Passes everything on."""
    return ask(request)


@dataclass(kw_only=True)
class FailedCommits:
    """The next commits are answered with an error.

    Args:
        status: of the answer.
        arrives: the catalog takes the commit all the same.
        times: how many commits are answered so.
        publishing: only those that move `main`.
        done: how many were answered so.
    """

    status: int
    arrives: bool
    times: int = 1
    publishing: bool = False
    done: int = 0

    def __call__(self, request: Request, ask: Callable[[Request], Answer]) -> Answer:
        """See `Fault`."""
        meant = any(not self.publishing or each.get("ref-name") == "main" for each in request.updates)
        if not meant or self.done == self.times:
            return ask(request)
        self.done += 1
        if self.arrives:
            assert ask(request).status == 200
        return error(self.status, "CommitFailedException" if self.status == 409 else "ServiceFailureException")


@dataclass(kw_only=True)
class LostOnceItPublished:
    """The catalog takes a commit that moves `main`, and is gone from then on.

    Args:
        answers: that commit is answered as it should be.
        done: it has taken it.
    """

    answers: bool
    done: bool = False

    def __call__(self, request: Request, ask: Callable[[Request], Answer]) -> Answer:
        """See `Fault`."""
        gone = error(503, "ServiceUnavailableException")
        if self.done:
            return gone
        self.done = any(each.get("ref-name") == "main" for each in request.updates)
        found = ask(request)
        return found if self.answers or not self.done else gone


@dataclass(kw_only=True)
class Forgotten:
    """The catalog accepts changes of some references and does not make them.

    Args:
        main: those of `main`; else those of other branches.
        done: how many were forgotten.
    """

    main: bool
    done: int = 0

    def __call__(self, request: Request, ask: Callable[[Request], Answer]) -> Answer:
        """See `Fault`."""
        updates = request.updates
        kept = [
            each
            for each in updates
            if each["action"] != "set-snapshot-ref" or (each["ref-name"] == "main") is not self.main
        ]
        if len(kept) == len(updates):
            return ask(request)
        self.done += 1
        body = {**json.loads(request.body), "updates": kept}
        return ask(Request(**{**vars(request), "body": json.dumps(body).encode()}))


@dataclass(kw_only=True)
class Login:
    """OAuth2 by client credentials: each token is good for some seconds, and every request needs one.

    Args:
        credential: the client's, as `id:secret`.
        scope: what the client has to ask for.
        seconds: how long a token is good.
        told: whether the client is told how long.
        status: what a request with a token that is not good gets.
        endless: how many more tokens are given; None: as many as are asked for.
        given: the moments until which tokens are good.
        refused: how many requests had none that is good.
        then: what becomes of the other requests.
    """

    credential: str
    scope: str
    seconds: float
    told: bool = True
    status: int = 401
    left: int | None = None
    given: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    then: Fault = healthy
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __call__(self, request: Request, ask: Callable[[Request], Answer]) -> Answer:
        """See `Fault`."""
        if urlsplit(request.path).path == TOKENS:
            return self._token(request)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.given.get(token, 0) < time.monotonic():
            self.refused += 1
            return error(self.status, "NotAuthorizedException", "the token is not good")
        return self.then(request, ask)

    def _token(self, request: Request) -> Answer:
        asked = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        exchanged = asked.get("subject_token", "") in self.given
        known = f"{asked.get('client_id')}:{asked.get('client_secret')}" == self.credential or exchanged
        if not known or self.scope not in asked.get("scope", "").split() or self.left == 0:
            return Answer(status=401, body=b'{"error": "invalid_client", "error_description": "refused"}')
        if self.left is not None:
            self.left -= 1
        token = f"canary-token-{next(self._numbers)}"
        self.given[token] = time.monotonic() + self.seconds
        said = {"access_token": token, "token_type": "bearer", "scope": self.scope}
        said["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
        return Answer(
            status=200, body=json.dumps(said | ({"expires_in": int(self.seconds)} if self.told else {})).encode()
        )


@dataclass(kw_only=True)
class CatalogProxy:
    """Where it listens, what becomes of requests, and those that came."""

    catalog: str
    port: int = 0
    fault: Fault = healthy
    asked: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The catalog's URL on this side."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, request: Request) -> Answer:
        """What the catalog says."""
        where = urlsplit(self.catalog)
        assert where.hostname
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        headers = {name: value for name, value in request.headers.items() if name in PASSED_ON}
        try:
            connection.request(request.method, where.path + request.path, request.body or None, headers)
            found = connection.getresponse()
            kept = [(name, value) for name, value in found.getheaders() if name.lower() in ("content-type", "etag")]
            return Answer(status=found.status, body=found.read(), headers=tuple(kept))
        finally:
            connection.close()


@contextlib.contextmanager
def in_front_of(catalog: str) -> Iterator[CatalogProxy]:
    """A proxy of the catalog at that URL, until the block ends."""
    proxy = CatalogProxy(catalog=catalog)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(method=self.command, path=self.path, headers=headers, body=body)
            proxy.asked.append(request)
            found = proxy.fault(request, proxy.ask)
            self.send_response(found.status)
            for name, value in found.headers:
                self.send_header(name, value)
            if found.status not in (204, 304):
                self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            """Says nothing."""

    with serving(Handler) as proxy.port:
        yield proxy
