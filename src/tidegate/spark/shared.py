"""A Spark that another process of this project keeps running: attached to instead of started, and left running.

Several processes use it side by side, each with sessions, a Python context and connections of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.errors import SparkLost
from tidegate.spark.interruption import Interruption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT, TOKEN = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DECISIVE = (
    *("AWS_", "AZURE_", "GOOGLE_", "GCS_", "HADOOP_", "HIVE_", "JAVA_", "JDK_", "KRB5", "SPARK_", "PYSPARK_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT"),
)
PATIENCE = 5.0
"""Seconds for a Spark at work to drop what an interruption asks it to drop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmSpec:
    """What a JVM has to be started with.

    Args:
        conf: of its Spark context.
        user: the settings that the project file states; no default replaces them.
        jars: of the driver.
        environment: the variables by which Java finds credentials, proxies and settings; see `java_environment`.
    """

    conf: Mapping[str, str]
    user: Mapping[str, str]
    jars: Sequence[Path]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same for JVMs that can stand in for each other: how fast one starts makes no difference."""
        conf = {key: value for key, value in self.conf.items() if key != JAVA_OPTIONS}
        document = json.dumps(
            [conf, dict(self.user), list(map(str, self.jars)), dict(self.environment)], sort_keys=True
        )
        return hashlib.sha256(document.encode()).hexdigest()


def java_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of these variables those that decide what Spark reads and writes, and as whom: who shares a JVM shares them.

    Example:
        >>> java_environment({"AWS_PROFILE": "prod", "HOME": "/root", "https_proxy": "http://p:3128"})
        {'AWS_PROFILE': 'prod', 'https_proxy': 'http://p:3128'}
    """
    return {name: value for name, value in environ.items() if name.upper().startswith(DECISIVE)}


class Lease(Protocol):
    """The right to use a JVM until `end`, and how to reach it."""

    @property
    def port(self) -> int:
        """Of its gateway, on this machine."""

    @property
    def secret(self) -> str:
        """Of its gateway."""

    @property
    def held(self) -> bool:
        """False from when the JVM ended."""

    def end(self, *, well: bool = True) -> None:
        """Nothing of this process uses it any longer. A process that dies without it leaves Spark at work.

        Args:
            well: False of a JVM that does not answer, which then ends with its last user.
        """


Provider = Callable[[JvmSpec], Lease | None]
_provider: Provider | None = None
_warm: Callable[[], bool] = bool


def provide(provider: Provider | None, warm: Callable[[], bool] = bool) -> None:
    """From here on this process asks there for a Spark before it starts one.

    Args:
        warm: whether one runs there already; asking starts nothing.
    """
    global _provider, _warm
    _provider, _warm = provider, warm


def provided() -> bool:
    """Whether this process belongs to a service."""
    return _provider is not None


def is_warm() -> bool:
    """Whether this process belongs to a service whose Spark runs already."""
    return _warm()


def lease(wanted: JvmSpec) -> Lease | None:
    """A Spark that can be attached to; None where this process has to start its own."""
    return None if _provider is None else _provider(wanted)


class SharedJvm:
    """A JVM of another process, with the methods of `Jvm`.

    Args:
        held: ended when this process needs Spark no longer.
        interrupt: drops what this process's sessions have Spark do.
    """

    def __init__(self, held: Lease, interrupt: Callable[[], None]) -> None:
        self._lease = held
        self._interrupt = interrupt
        self._gateway: Any = None
        self._interruption = Interruption()

    def connect(self) -> SparkSession:
        """The session of the context that runs there. Raises SparkLost: it does not answer."""
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - importing pyspark takes a second
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        try:
            with gateway_at(self._lease.port, self._lease.secret):
                launch: Any = launch_gateway  # PySpark left it untyped
                self._gateway = launch()
            SparkContext._ensure_initialized(gateway=self._gateway)  # noqa: SLF001 - what its own shell calls
            jvm = self._gateway.jvm
            java = jvm.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
            context = SparkContext(gateway=self._gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
            session = SparkSession(context)
        except Exception as error:
            self._detach(well=False)
            raise SparkLost(
                "the Spark of the service does not answer", hint="Run the command again, or with --local."
            ) from error
        self._take_signals()
        return session

    @property
    def alive(self) -> bool:
        """False from when the JVM ended."""
        return self._lease.held

    def end(self, patience: float = PATIENCE) -> None:
        """Detaches; the JVM goes on."""
        del patience
        self._detach(well=True)

    def _detach(self, *, well: bool) -> None:
        from pyspark import SparkContext  # noqa: PLC0415 - as above

        gateway, self._gateway = self._gateway, None
        self._interruption.give_back()
        for reference in ("_gateway", "_jvm", "_active_spark_context"):
            setattr(SparkContext, reference, None)
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.close()
        self._lease.end(well=well)

    def kill(self) -> None:
        """Ends nothing: the JVM is not ours. `Sessions.abort` interrupts what this process's sessions do."""

    def _take_signals(self) -> None:
        """PySpark's handler would cancel the jobs of every process; ours drops those of this one."""
        if not self._interruption.take(self._drop):
            return
        for number, handler in self._interruption.before.items():
            if not callable(handler):
                signal.signal(number, handler)

    def _drop(self) -> None:
        """From a thread of its own: the main thread's connection may be waiting for an answer."""
        asking = threading.Thread(target=self._interrupt, daemon=True)
        asking.start()
        asking.join(PATIENCE)
        self._break_off()

    def _break_off(self) -> None:
        """The next question over the main thread's connection would get the answer to the one that was interrupted."""
        client = self._gateway._gateway_client if self._gateway is not None else None  # noqa: SLF001 - no other way
        connection = client.get_thread_connection() if client is not None else None
        if connection is not None and connection.socket is not None:
            with contextlib.suppress(OSError):
                connection.socket.close()


@contextlib.contextmanager
def gateway_at(port: int, secret: str) -> Any:
    """PySpark looks in the environment for a JVM that runs already; programs that we start need not see it."""
    os.environ.update({PORT: str(port), TOKEN: secret})
    try:
        yield
    finally:
        for name in (PORT, TOKEN):
            os.environ.pop(name, None)
