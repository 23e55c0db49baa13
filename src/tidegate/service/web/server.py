"""Serves the dashboard from a thread of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from tidegate.errors import ConfigError
from tidegate.service.web.settings import WebSettings

GRACE = 3
"""Seconds that open connections get when the service stops."""


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serves the application until the block ends; yields the address to open, with the token.

    Raises:
        ConfigError: the address is taken, or not one of this machine.
    """
    settings: WebSettings = app.state.settings
    # Addresses hold the token when somebody logs in, so no request is logged.
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(config)
    try:
        socket = config.bind_socket()
    except (OSError, SystemExit) as error:
        raise ConfigError(
            f"the dashboard cannot listen on {settings.host}:{settings.port}",
            hint="Another program may use the port: choose another one.",
        ) from error
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, name="dashboard", daemon=True)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    try:
        yield settings.url
    finally:
        server.should_exit = True
        thread.join(GRACE + 2)
        socket.close()
