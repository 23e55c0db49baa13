"""Pages that were made a moment ago, for everybody who asks for the same: making one takes ten times as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tidegate.service.web.facts import Line

MOST = 100
"""Pages that are kept: addresses differ by what is searched for, and sessions do."""


@dataclass(kw_only=True)
class Pages:
    """The pages of what the registry said last; the next answer of the registry makes all of them old."""

    _lines: Sequence[Line] = ()
    _made: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def answer(self, request: Request, lines: Sequence[Line], make: Callable[[], Response]) -> Response:
        """The page of this address and session, made once for these lines."""
        key = (request.url.path, request.url.query, request.scope["who"], request.scope["session"])
        with self._lock:
            if self._lines is not lines or len(self._made) >= MOST:
                self._lines, self._made = lines, {}
            if key not in self._made:
                self._made[key] = bytes(make().body)
            return HTMLResponse(self._made[key])
