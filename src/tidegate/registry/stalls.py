"""Connections to PostgreSQL that give up on a server which stands still.

A statement may take long, so a server is given up only if it does not answer a new connection, either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import psycopg

PATIENCE = 60.0
"""Seconds without an answer after which the server is asked by another connection."""
STALLED = "the server does not answer"


class WatchfulConnection(psycopg.Connection[Any]):
    """A connection that ends once its server answers neither its statement nor a new connection.

    Raises:
        psycopg.OperationalError: so it is, with the words `STALLED`.
    """

    answers: Callable[[], bool] | None = None
    patience = PATIENCE

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """See psycopg: what `gen` returns."""
        return super().wait(watched(gen, self._stalled, self.patience), *arguments, **options)

    def _stalled(self) -> bool:
        if self.answers is None or self.answers():
            return False
        self.pgconn.finish()
        return True


def watched(gen: Any, stalled: Callable[[], bool], patience: float) -> Generator[Any, Any, Any]:
    """The same exchange with a server; asks whether the server has stalled whenever nothing came for so long."""
    until = time.monotonic() + patience
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                until = time.monotonic() + patience
            elif time.monotonic() > until:
                if stalled():
                    raise psycopg.OperationalError(STALLED)
                until = time.monotonic() + patience
            state = gen.send(ready)
    except StopIteration as end:
        return end.value


def connect(_dialect: object, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What SQLAlchemy calls for a new connection, see its event `do_connect`."""
    connection = WatchfulConnection.connect(*arguments, **options)
    connection.answers = lambda: _answers(arguments, options)
    return connection


def _answers(arguments: Sequence[Any], options: Mapping[str, Any]) -> bool:
    try:
        psycopg.connect(*arguments, **options).close()
    except psycopg.errors.ConnectionTimeout:
        return False
    except psycopg.Error:
        return True  # it refuses, and the statement will tell why
    return True
