"""Starts and stops a JVM with Spark, with its output in a file and its secrets off the command line.

A JVM never outlives this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tidegate.core.cutting import LONGEST_LINE, cut
from tidegate.core.secret_names import SECRET_NAME
from tidegate.errors import EnvironmentMissing, SparkLost
from tidegate.spark import temporary
from tidegate.spark.interruption import Interruption
from tidegate.spark.java import find_java, spark_home
from tidegate.spark.shared import JAVA_OPTIONS, PORT, gateway_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS_PATH = "SPARK_DIST_CLASSPATH"
POLL = 0.02
"""Seconds between two looks for a JVM that starts."""
END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Java goes on without the thread whose memory did not suffice, for which others would wait for ever."""
_LAUNCHING = re.compile(
    r"spark\.(master|app\.name|plugins|driver\..*|submit\..*|jars(\..*)?|files|archives|pyspark\..*|yarn\..*|"
    r"kubernetes\..*|kerberos\..*|hadoop\.fs\.defaultFS)"
)
"""What Spark's launcher has to know before the context is made; everything else goes over inside the process."""
_TELLING = re.compile(r"(?:Caused by: |Exception in thread \S+ |^Error: |^Error )(.*)")


class Jvm:
    """One JVM that runs one Spark context; that of `spark-submit` in a program which it started."""

    def __init__(self) -> None:
        self._conf: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._address = Path()
        self._gateway: Any = None
        self._interruption = Interruption()
        self._held = contextlib.ExitStack()

    def launch(self, conf: Mapping[str, str], log: Path | None, jars: Sequence[Path] = ()) -> None:
        """Starts the process and returns at once: `connect` waits for it.

        Args:
            conf: of the Spark context.
            log: the file that takes what the JVM prints; a temporary one if None.
            jars: of the driver, behind Spark's own in the class path.

        Raises:
            EnvironmentMissing: no Java.
        """
        find_java()
        folder = self._held.enter_context(temporary.folder())
        if conf.get("spark.master", "").startswith("local"):
            # Its workers run what this process runs; the first python3 on the path may lack what they need.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            conf = _temporary(conf, folder)
        self._conf, self._address = conf, folder / "gateway"
        if PORT not in os.environ:
            self._output = self._held.enter_context(_output(log))
            self._process = _submitted(conf, self._address, self._output, jars)

    def connect(self) -> SparkSession:
        """The session of a new context in the process that was launched.

        Raises:
            EnvironmentMissing: Spark does not start; the hint quotes what it said.
            SparkLost: the process was ended from outside.
        """
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - importing pyspark takes a second
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        process = self._process
        try:
            with gateway_at(*_address(process, self._address)) if process else contextlib.nullcontext():
                connect: Any = launch_gateway  # PySpark left it untyped
                self._gateway = connect()
            self._gateway.proc = process
            conf = SparkConf(loadDefaults=False).setAll(list(self._conf.items()))
            session = SparkSession(SparkContext(conf=conf, gateway=self._gateway))
        except Exception as error:
            signaled = -(process.poll() or 0) if process else 0
            hint = _hint(self._output)
            self.end()
            if signaled > 0:
                raise SparkLost(f"Spark's process was ended by signal {signaled} while it started") from error
            raise EnvironmentMissing("Spark did not start", hint=hint) from error
        except KeyboardInterrupt:
            self.end()
            raise
        # Killed first, so that nothing which unwinds talks to a Spark at work. PySpark's own handler does, over the
        # connection whose answer it interrupted.
        self._interruption.take(self.kill)
        return session

    def start(self, conf: Mapping[str, str], log: Path | None, jars: Sequence[Path] = ()) -> SparkSession:
        """Both; see `launch` and `connect`."""
        self.launch(conf, log, jars)
        return self.connect()

    @property
    def port(self) -> int:
        """Of its gateway, on this machine alone."""
        return int(self._gateway.gateway_parameters.port)

    @property
    def secret(self) -> str:
        """What its gateway wants to hear first."""
        return str(self._gateway.gateway_parameters.auth_token)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was launched."""
        if self._process is None:
            raise ValueError("its process was started by others")
        return self._process

    @property
    def alive(self) -> bool:
        """False from when its process ended, by whatever."""
        return self._process is None or self._process.poll() is None

    def end(self, patience: float = 20) -> None:
        """The process is gone when this returns; it is killed where it takes longer than so many seconds."""
        gateway, self._gateway = self._gateway, None
        process, self._process = self._process, None
        self._interruption.give_back()
        with self._held.pop_all():
            if gateway is not None:
                _disconnect(gateway)
            elif process is not None:
                process.kill()  # it has done nothing yet
            if process is not None:
                _ended(process, patience)

    def clean(self) -> None:
        """Removes its temporary files, for a process that leaves at once and takes its JVM along."""
        self._held.close()

    def kill(self) -> None:
        """Ends the process at once, whatever it is at; `end` cleans up. One that was started by others goes on."""
        if self._process is not None:
            self._process.kill()


def _submitted(
    conf: Mapping[str, str], address: Path, output: IO[bytes], jars: Sequence[Path]
) -> subprocess.Popen[bytes]:
    """Spark's gateway as PySpark starts it, which would wait for it; see `pyspark.java_gateway.launch_gateway`.

    Args:
        address: the file into which it writes where it listens.
    """
    # Everybody on the machine can read a command line.
    shown = [pair for pair in conf.items() if _LAUNCHING.fullmatch(pair[0]) and not SECRET_NAME.search(pair[0])]
    settings = [word for name, value in shown for word in ("--conf", f"{name}={value}")]
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
    # Spark's launcher puts what this variable names behind everything else.
    paths = [*map(str, jars), *filter(None, [environment.get(CLASS_PATH)])]
    # Ctrl-C in a terminal reaches every process there; this one decides when its JVM ends.
    return subprocess.Popen(  # noqa: S603 - the installed Spark
        ["/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"', f"{spark_home()}/bin/spark-submit", *settings, *arguments],
        stdin=subprocess.PIPE,  # it ends when this pipe does
        stdout=output,
        stderr=output,
        env={**environment, CLASS_PATH: os.pathsep.join(paths)} if paths else environment,
    )


def _address(process: subprocess.Popen[bytes], file: Path) -> tuple[int, str]:
    """Port and secret of its gateway, once it listens: a big-endian number, and a text behind its length.

    Raises:
        EnvironmentMissing: it ended before.
    """
    while not file.is_file():  # it is moved there whole
        if process.poll() is not None:
            raise EnvironmentMissing("Spark's process ended")
        time.sleep(POLL)
    port, length = struct.unpack_from(">ii", found := file.read_bytes())
    return port, found[8 : 8 + length].decode()


def _disconnect(gateway: Any) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - importing pyspark takes a second

    # PySpark would hand the next context to the JVM that ends here, or take the one that died with it for active.
    for reference in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, reference, None)
    with contextlib.suppress(Exception):  # the JVM may be gone already, which is what is wanted
        gateway.shutdown()


def _ended(process: subprocess.Popen[bytes], patience: float) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _temporary(conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The configuration with what Spark and its libraries write for a while in this folder; the user's own wins."""
    java = f"{shlex.quote(f'-Djava.io.tmpdir={folder}')} {conf.get(JAVA_OPTIONS, '')}".rstrip()
    return {"spark.local.dir": str(folder), **conf, JAVA_OPTIONS: java}


def _output(log: Path | None) -> IO[bytes]:
    if log is None:
        return tempfile.TemporaryFile()
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("w+b")


def _hint(output: IO[bytes] | None) -> str:
    doctor = "Correct `spark:` in tidegate.yaml, then run `tidegate doctor`."
    if output is None:
        return doctor
    output.seek(0)
    lines = output.read().decode(errors="replace").splitlines()
    quoted = [found[1] for line in lines if (found := _TELLING.search(line))]
    return f"{doctor} Spark said: {cut(quoted[-1], LONGEST_LINE)}" if quoted else doctor
