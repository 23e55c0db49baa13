"""Sessions of a Spark Connect server."""

from __future__ import annotations

import re
import socket
import warnings
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from tidegate import extras
from tidegate.errors import EnvironmentMissing
from tidegate.spark.logs import silence_refused_statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_PORT = 15002
RETRIES = 5
"""How often PySpark's client asks a server that does not answer again, within 17 s; by itself 15 times, in 10 min."""


def is_connect(session: SparkSession) -> bool:
    """Whether the session speaks to a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def connect(remote: str) -> SparkSession:
    """A session of the server at `sc://…`.

    Raises:
        EnvironmentMissing: its client is not installed, or it does not answer.
    """
    try:
        # Not `pyspark.sql`'s builder: it turns the whole process, and those it starts, into clients of Connect.
        from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415 - importing takes a second
    except ImportError as error:
        raise EnvironmentMissing("the Spark Connect client is not installed", hint=extras.hint("connect")) from error
    silence_refused_statements()
    parts = urlsplit(remote)
    try:
        # PySpark's client tries a dead address for ten minutes before it says so.
        socket.create_connection((parts.hostname or "", parts.port or CONNECT_PORT), timeout=10).close()
        session = cast("SparkSession", Remote.builder.remote(remote).create())
        limit_retries(session)
        session.sql("SELECT 1").collect()
    except Exception as error:
        raise unreachable(remote) from error
    return session


def limit_retries(session: SparkSession, retries: int = RETRIES) -> None:
    """Lets the session tell soon of a server that is gone; a load is retried by the engine."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - importing takes a second

    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # the error itself comes with it
    either: Any = session  # only a session of Connect has a client, and it is not typed
    either.client.set_retry_policies([DefaultPolicy(max_retries=retries)])


def unreachable(what: str) -> EnvironmentMissing:
    """The error of a Spark that does not answer, or refuses a session."""
    where = re.sub(r";.*", "", what)
    return EnvironmentMissing(
        f"Spark at {where} cannot be reached or refused the session",
        hint="Start it, or correct `spark:` in tidegate.yaml; `tidegate doctor` tests it.",
    )
