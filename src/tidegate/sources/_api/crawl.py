"""Pages that an API has answered in a pass that then failed, so that the next attempt goes on from where it ended."""

from __future__ import annotations

import copy
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

LONGEST_PAUSE = 600
"""Seconds after the last answer, in which a pass is continued; later, it begins again."""


@dataclass(slots=True)
class Crawl:
    """The answers of one pass, by their requests; forgotten at its end."""

    _answers: dict[tuple[object, ...], tuple[Response, bytes]] = field(default_factory=dict)
    _answered_at: float = 0.0

    def answer(self, request: PreparedRequest) -> Response | None:
        """What was answered to the same request before the pass failed."""
        if time.monotonic() - self._answered_at > LONGEST_PAUSE:
            self.forget()
        known = self._answers.get(_asked(request))
        return None if known is None else _with(known[0], zlib.decompress(known[1]))

    def keep(self, request: PreparedRequest, found: Response) -> None:
        """Keeps a whole answer."""
        self._answers[_asked(request)] = _with(found, b""), zlib.compress(found.content, 1)
        self._answered_at = time.monotonic()

    def forget(self) -> None:
        """Forgets all answers."""
        self._answers.clear()


def _asked(request: PreparedRequest) -> tuple[object, ...]:
    """All of a request but its headers, in which a login may have been renewed."""
    return request.method, request.url, request.body


def _with(found: Response, content: bytes) -> Response:
    made = copy.copy(found)
    made._content = content  # noqa: SLF001 - requests has no other way to make one
    return made
