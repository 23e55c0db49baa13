"""Events of commands that the service runs, for those who follow them in other processes."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

from tidegate.engine.events import Event, Listener, Moment, Stage, ignore
from tidegate.service import wire
from tidegate.service.place import Place


@contextmanager
def followed(place: Place) -> Iterator[SimpleQueue[Event]]:
    """A queue that gets each event of each command from now on, until the block ends; without a service it stays empty.

    Of an outcome only its name comes, in `detail`.
    """
    events: SimpleQueue[Event] = queue.SimpleQueue()
    connection = place.connect()
    if connection is None:
        yield events
        return
    wire.send(connection, {"ask": "events"})
    listening = threading.Thread(target=_listen, args=(connection, events), daemon=True)
    listening.start()
    try:
        yield events
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        listening.join()
        connection.close()


def teller(place: Place) -> Listener:
    """Tells the service of each event; nobody waits for it, and nobody fails by it."""
    connection = place.connect()
    if connection is None:
        return ignore
    wire.send(connection, {"ask": "tell"})

    def tell(event: Event) -> None:
        with suppress(OSError):
            wire.send(connection, document_of(event))

    return tell


def document_of(event: Event) -> dict[str, Any]:
    outcome = str(event.outcome.outcome) if event.outcome is not None else ""
    return {
        "stream": event.stream,
        "stage": str(event.stage),
        "moment": str(event.moment),
        "detail": event.detail or outcome,
        "seconds": event.seconds,
        "rows": event.rows,
        "share": event.share,
        "place": list(event.place),
    }


def event_of(document: Mapping[str, Any]) -> Event:
    """The same on the other side."""
    number, of = document["place"]
    stage, moment = Stage(document["stage"]), Moment(document["moment"])
    return Event(**{**document, "stage": stage, "moment": moment, "place": (number, of)})


def _listen(connection: socket.socket, events: SimpleQueue[Event]) -> None:
    while (message := wire.receive(connection)) is not None:
        events.put(event_of(message[0]))
