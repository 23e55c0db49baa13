"""Starts and stops a JVM with Spark, with its output in a file and its secrets off the command line.

A JVM never outlives this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from traceback import walk_tb
from typing import IO, TYPE_CHECKING, Any

from tidegate.core.secret_names import SECRET_NAME
from tidegate.errors import EnvironmentMissing, SparkLost
from tidegate.spark import temporary
from tidegate.spark.interruption import Interruption
from tidegate.spark.java import find_java
from tidegate.spark.shared import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS_PATH = "SPARK_DIST_CLASSPATH"
_LAUNCHING = re.compile(
    r"spark\.(master|app\.name|plugins|driver\..*|submit\..*|jars(\..*)?|files|archives|pyspark\..*|yarn\..*|"
    r"kubernetes\..*|kerberos\..*|hadoop\.fs\.defaultFS)"
)
"""What Spark's launcher has to know before the context is made; everything else goes over inside the process."""
_TELLING = re.compile(r"(?:Caused by: |Exception in thread \S+ |^Error: |^Error )(.*)")


class Jvm:
    """One JVM that runs one Spark context."""

    def __init__(self) -> None:
        self._gateway: Any = None
        self._interruption = Interruption()
        self._held = contextlib.ExitStack()

    def start(self, conf: Mapping[str, str], log: Path | None, jars: Sequence[Path] = ()) -> SparkSession:
        """The session of a new context with that configuration.

        Args:
            log: the file that takes what the JVM prints; a temporary one if None.
            jars: of the driver, behind Spark's own in the class path.

        Raises:
            EnvironmentMissing: no Java, or Spark does not start; the hint quotes what it said.
        """
        find_java()
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - importing pyspark takes a second
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        if conf.get("spark.master", "").startswith("local"):
            # Its workers run what this process runs; the first python3 on the path may lack what they need.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            conf = _temporary(conf, self._held.enter_context(temporary.folder()))
        # Everybody on the machine can read a command line.
        shown = SparkConf(loadDefaults=False).setAll(
            [pair for pair in conf.items() if _LAUNCHING.fullmatch(pair[0]) and not SECRET_NAME.search(pair[0])]
        )
        whole = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        with _output(log) as output, _class_path(jars):
            try:
                launch: Any = launch_gateway  # PySpark left it untyped
                self._gateway = launch(shown, {"stdout": output, "stderr": output})
                session = SparkSession(SparkContext(conf=whole, gateway=self._gateway))
            except Exception as error:
                ended = _killed_by(error, self._gateway)
                self.end()
                if ended is not None:
                    raise SparkLost(f"Spark's process was ended by signal {ended} while it started") from error
                output.seek(0)
                raise EnvironmentMissing("Spark did not start", hint=_hint(output.read())) from error
            except KeyboardInterrupt:
                self.end()
                raise
        # Killed first, so that nothing which unwinds talks to a Spark at work. PySpark's own handler does, over the
        # connection whose answer it interrupted.
        process = self._gateway.proc
        self._interruption.take(process.kill if process is not None else _nothing)
        return session

    @property
    def port(self) -> int:
        """Of its gateway, on this machine alone."""
        return int(self._gateway.gateway_parameters.port)

    @property
    def secret(self) -> str:
        """What its gateway wants to hear first."""
        return str(self._gateway.gateway_parameters.auth_token)

    @property
    def pid(self) -> int:
        """Of its process."""
        return int(self._gateway.proc.pid)

    @property
    def alive(self) -> bool:
        """False from when its process ended, by whatever."""
        process = self._gateway.proc if self._gateway is not None else None
        return process is None or process.poll() is None

    def wait(self) -> None:
        """Returns when its process has ended, by whatever."""
        self._gateway.proc.wait()

    def end(self, patience: float = 20) -> None:
        """The process is gone when this returns; it is killed where it takes longer than so many seconds."""
        gateway, self._gateway = self._gateway, None
        self._interruption.give_back()
        with self._held.pop_all():
            if gateway is not None:
                _ended(gateway, patience)

    def clean(self) -> None:
        """Removes its temporary files, for a process that leaves at once and takes its JVM along."""
        self._held.close()

    def kill(self) -> None:
        """Ends the process at once, whatever it is at; `end` cleans up."""
        process = self._gateway.proc if self._gateway is not None else None
        if process is not None:
            process.kill()


def _ended(gateway: Any, patience: float) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - importing pyspark takes a second

    # PySpark would hand the next context to the JVM that ends here, or take the one that died with it for active.
    for reference in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, reference, None)
    with contextlib.suppress(Exception):  # the JVM may be gone already, which is what is wanted
        gateway.shutdown()
    process = gateway.proc
    if process is None:
        return
    process.stdin.close()  # it ends when this pipe does
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _killed_by(error: BaseException, gateway: Any) -> int | None:
    """The signal that ended the process while it started; None where it ended by itself, or not at all."""
    process = gateway.proc if gateway is not None else None
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_code.co_name == "launch_gateway":  # which keeps its process for itself until it answers
            process = process or frame.f_locals.get("proc")
    code = process.poll() if process is not None else None
    return -code if code is not None and code < 0 else None


def _temporary(conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The configuration with what Spark and its libraries write for a while in this folder; the user's own wins."""
    java = f"{shlex.quote(f'-Djava.io.tmpdir={folder}')} {conf.get(JAVA_OPTIONS, '')}".rstrip()
    return {"spark.local.dir": str(folder), **conf, JAVA_OPTIONS: java}


def keep_secrets() -> None:
    """At debug py4j logs every command that it sends to a JVM, the passwords in a session's settings included."""
    log = logging.getLogger("py4j")
    if log.getEffectiveLevel() < logging.INFO:
        log.setLevel(logging.INFO)


def _nothing() -> None:
    """A JVM that was started by others is theirs to end."""


@contextlib.contextmanager
def _class_path(jars: Sequence[Path]) -> Iterator[None]:
    """Spark's launcher puts what this variable names behind everything else."""
    before = os.environ.get(CLASS_PATH)
    if jars:
        os.environ[CLASS_PATH] = os.pathsep.join([*map(str, jars), *([before] if before else [])])
    try:
        yield
    finally:
        if before is not None:
            os.environ[CLASS_PATH] = before
        else:
            os.environ.pop(CLASS_PATH, None)


def _output(log: Path | None) -> IO[bytes]:
    if log is None:
        return tempfile.TemporaryFile()
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("w+b")


def _hint(output: bytes) -> str:
    lines = [found[1] for line in output.decode(errors="replace").splitlines() if (found := _TELLING.search(line))]
    doctor = "Correct `spark:` in tidegate.yaml, then run `tidegate doctor`."
    return f"{doctor} Spark said: {lines[-1][:300]}" if lines else doctor
