"""A REST catalog that gives credentials of the store with each table, and a store that takes no others.

Asked for by tests of vended credentials: the catalog is Iceberg's own, whose answers get keys of a session on their way
to the client; the store is the S3 server of the tests, behind a door that knows the sessions. Neither tells a client
the login that they have themselves.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.catalog_proxy import Answer, Request
from support.http_server import serving
from support.object_store import ACCESS, REGION, SECRET

SECRET_KEY, TOKEN = "canary-key/", "canary-session/"
"""What every secret key and every session token that is given begins with."""
HEADER = "X-Iceberg-Access-Delegation"
VENDED = "vended-credentials"
# Of one connection, of the first signature, or of a body in pieces.
DROPPED = re.compile(
    r"authorization|connection|content-length|transfer-encoding|expect|host|user-agent|amz-sdk-.*|x-amz-trailer"
    r"|x-amz-(?:security-token|content-sha256|date|decoded-content-length|sdk-checksum-algorithm)"
)


@dataclass(frozen=True, kw_only=True)
class Session:
    """Keys of the store that are good for a while, below one location."""

    number: int
    location: str
    until: float

    @property
    def keys(self) -> dict[str, str]:
        """As the REST specification names them."""
        return {
            "s3.access-key-id": f"ASIASESSION{self.number}",
            "s3.secret-access-key": f"{SECRET_KEY}{self.number}",
            "s3.session-token": f"{TOKEN}{self.number}",
            "s3.session-token-expires-at-ms": str(int((time.time() + self.until - time.monotonic()) * 1_000)),
        }


@dataclass(kw_only=True)
class Door:
    """Lets in who shows the token of a session, to what lies below its location.

    Args:
        server: the endpoint of the S3 server.
        seconds: how long a session lasts that is opened from now on.
        sessions: those that were opened, by their token.
        used: the numbers of the sessions that somebody came in by.
        refused: how many requests were not let in, by reason.
        then: called when the store has done what was asked, before the client is told.
    """

    server: str
    port: int = 0
    seconds: float = 3_600
    sessions: dict[str, Session] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)
    then: Callable[[Request], object] = bool
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def endpoint(self) -> str:
        """Where clients of S3 ask."""
        return f"http://127.0.0.1:{self.port}"

    def open(self, location: str) -> Session:
        """A new session."""
        made = Session(number=next(self._numbers), location=location, until=time.monotonic() + self.seconds)
        self.sessions[made.keys["s3.session-token"]] = made
        return made

    def end(self) -> None:
        """Ends every session that was opened."""
        ended = {token: Session(**{**vars(each), "until": 0}) for token, each in self.sessions.items()}
        self.sessions |= ended

    def why_not(self, request: Request) -> str | None:
        """Why a request is not let in, in S3's words."""
        session = self.sessions.get(request.headers.get("x-amz-security-token", ""))
        if session is None or f"Credential={session.keys['s3.access-key-id']}/" not in request.headers["authorization"]:
            return "AccessDenied"
        if session.until < time.monotonic():
            return "ExpiredToken"
        inside = f"{session.location.partition('://')[2]}/"
        if not all(f"{name}/".startswith(inside) for name in _reached(request)):
            return "AccessDenied"
        self.used.add(session.number)
        return None

    def ask(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the store says, asked by its own login."""
        kept = {name: value for name, value in request.headers.items() if not DROPPED.fullmatch(name)}
        if kept.get("content-encoding", "").startswith("aws-chunked"):
            kept["content-encoding"] = kept["content-encoding"].removeprefix("aws-chunked").lstrip(",")
        signed = AWSRequest(request.method, self.server + request.path, headers=kept, data=request.body)
        S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION).add_auth(signed)
        where = urlsplit(self.server)
        assert where.hostname
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        try:
            connection.request(request.method, request.path, request.body, dict(signed.headers.items()))
            found = connection.getresponse()
            return found.status, found.getheaders(), found.read()
        finally:
            connection.close()


def _reached(request: Request) -> list[str]:
    """The objects that a request is about, or the folder that it lists, each behind its bucket."""
    where = urlsplit(request.path)
    bucket, _, key = unquote(where.path).lstrip("/").partition("/")
    if key:
        return [f"{bucket}/{key}"]
    if "delete" in parse_qs(where.query, keep_blank_values=True):
        return [f"{bucket}/{name}" for name in re.findall(r"<Key>([^<]+)</Key>", request.body.decode())]
    return [f"{bucket}/{parse_qs(where.query).get('prefix', [''])[0]}"]


@dataclass(kw_only=True)
class Vending:
    """Puts keys of a new session into what the catalog says of a table, where the client asked for them.

    Says nothing to a client that knows the table as it is, by its ETag, and so has to live with the keys that it has.

    Args:
        apart: as `storage-credentials`; else among the table's `config`.
        renewing: the client may renew them without loading the table again.
        ending: with every commit, all keys that were given end.
        given: how many sessions were opened for a table.
        renewed: how many of them by that way.
    """

    door: Door
    apart: bool = False
    renewing: bool = False
    ending: bool = False
    given: int = 0
    renewed: int = 0

    def __call__(self, request: Request, ask: Callable[[Request], Answer]) -> Answer:
        """See `catalog_proxy.Fault`."""
        path = urlsplit(request.path).path
        if self.renewing and path.endswith("/credentials"):
            self.renewed += 1
            table = json.loads(ask(Request(method="GET", path=path.removesuffix("/credentials"), headers={})).body)
            return Answer(status=200, body=json.dumps({"storage-credentials": [self._keys(table)]}).encode())
        answer = ask(request)
        if self.ending and request.updates:
            self.door.end()
        found = json.loads(answer.body or b"null") if answer.status == 200 and request.method != "HEAD" else None
        if not isinstance(found, dict) or "metadata" not in found or ("/tables/" in path and request.method == "POST"):
            return answer
        if VENDED not in request.headers.get(HEADER.lower(), ""):
            return answer
        tag = f'"{found["metadata-location"]}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(status=304, headers=(("ETag", tag),))
        made = self._keys(found)
        more: dict[str, Any] = {"storage-credentials": [made]} if self.apart else {}
        config = {**found.get("config", {}), **({} if self.apart else made["config"])}
        if self.renewing and path.rpartition("/")[0].endswith("/tables"):
            config["client.refresh-credentials-endpoint"] = f"{path}/credentials".removeprefix("/")
        body = json.dumps({**found, **more, "config": config}).encode()
        return Answer(status=200, body=body, headers=(*answer.headers, ("ETag", tag)))

    def _keys(self, table: dict[str, Any]) -> dict[str, Any]:
        self.given += 1
        location = table["metadata"]["location"]
        return {"prefix": location, "config": self.door.open(location).keys}


@contextlib.contextmanager
def door_of(server: str) -> Iterator[Door]:
    """The door of an S3 server until the block ends."""
    door = Door(server=server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = _whole(self.rfile.read(int(headers.get("content-length", 0))), headers)
            request = Request(method=self.command, path=self.path, headers=headers, body=body)
            why = door.why_not(request)
            if why is not None:
                door.refused[why] = door.refused.get(why, 0) + 1
                said = {"ExpiredToken": "The provided token has expired.", "AccessDenied": "Access Denied"}[why]
                text = f"<Error><Code>{why}</Code><Message>{said}</Message></Error>".encode()
                found = (400 if why == "ExpiredToken" else 403, [("Content-Type", "application/xml")], text)
            else:
                found = door.ask(request)
                door.then(request)
            self._send(*found)

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            head = self.command == "HEAD"
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding", "date", "server") and (
                    head or name.lower() != "content-length"
                ):
                    self.send_header(name, value)
            if not head and status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not head:
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            """Says nothing."""

    with serving(Handler) as door.port:
        yield door


def _whole(body: bytes, headers: dict[str, str]) -> bytes:
    """A body that AWS's clients send in pieces with signatures between, without these.

    Source: AWS, "Signature calculations: transferring payload in multiple chunks".
    """
    if not headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return body
    pieces = []
    while body:
        line, _, body = body.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        pieces.append(body[:size])
        body = body[size + 2 :]
    return b"".join(pieces)
