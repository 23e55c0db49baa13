"""Warns of connections that the project does not have encrypted, once a run or check."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tidegate.engine.stream import Stream
from tidegate.errors import TidegateError

log = logging.getLogger("tidegate")


def warn(streams: Sequence[Stream]) -> None:
    """Logs each warning of the streams' sources once."""
    for text in dict.fromkeys(_warnings(streams)):
        log.warning(text)


def _warnings(streams: Sequence[Stream]) -> Iterator[str]:
    for stream in streams:
        with suppress(TidegateError):  # a URL that cannot be parsed is told where it is used
            yield from stream.source.in_the_clear()
