"""Server-sent events of a run, and the server that sends them."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest

from tidegate.core.outcome import Outcome, Result
from tidegate.engine.events import Event, Moment, Stage
from tidegate.errors import ConfigError
from tidegate.service.web.app import create_app
from tidegate.service.web.server import serving
from tidegate.service.web.settings import WebSettings
from unit.service.web.conftest import TOKEN

PORT = 18471


def event(stream, moment, **values):
    return Event(stream=stream, stage=Stage.READ, moment=moment, **values)


def open_(path):
    asked = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    return urllib.request.urlopen(asked, timeout=10)


def test_lines_of_a_stream_come_while_it_runs_and_those_of_others_do_not(service):
    app = create_app(service, WebSettings(port=PORT, token=TOKEN))
    with serving(app) as url:
        assert url == f"http://127.0.0.1:{PORT}/?token={TOKEN}"
        with open_("/events?stream=orders_000") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.readline() == b": open\n"
            (queue,) = service.queues
            queue.put(event("orders_001", Moment.DONE))
            queue.put(event("orders_000", Moment.DONE, seconds=1.5, detail="7 rows\nof 9"))
            outcome = Outcome(stream="orders_000", outcome=Result.LOADED, strategy="full")
            queue.put(event("orders_000", Moment.ENDED, outcome=outcome))
            text = answer.read().decode()
        assert text.strip() == (
            "event: line\ndata: read done, 1.5 s: 7 rows of 9\n\n"
            "event: line\ndata: ended: loaded\n\nevent: ended\ndata:"
        )
        assert not service.queues, "who has gone listens no more"
        assert json.load(open_("/api/v1/memory"))["memory_bytes"] > 0
        with pytest.raises(ConfigError, match="cannot listen"), serving(app):
            pass
    deadline = time.monotonic() + 10
    while any(thread.name == "dashboard" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(urllib.error.URLError):
        open_("/healthz")
