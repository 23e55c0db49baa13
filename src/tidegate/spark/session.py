"""Provides Spark sessions: the caller's own, a Connect server's, or those of a JVM that is started here.

Each load gets an isolated session. Never changes a session it did not create, starts anything before rows have to move,
or uses PySpark's private API.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from tidegate.errors import ConfigError, EnvironmentMissing, SparkLost, TidegateError
from tidegate.spark import archive
from tidegate.spark.failures import told_as_lost
from tidegate.spark.jars import ICEBERG_CATALOG, LOCAL_FILES, resolve
from tidegate.spark.jvm import END_WITHOUT_MEMORY, Jvm
from tidegate.spark.logs import keep_secrets, silence_refused_statements
from tidegate.spark.masks import Masks
from tidegate.spark.needed import EXTENSIONS, LOG_STORE, STARTED_WITH, extensions_of, need_jars, need_settings
from tidegate.spark.remote import connect, is_connect, limit_retries, unreachable
from tidegate.spark.shared import JAVA_OPTIONS, JvmSpec, SharedJvm, is_warm, lease, provided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Values in files, whatever the session is set to: INT96 holds nanoseconds, in which Arrow and delta-rs can only say the
# years 1677 to 2262, and days before 1582 are those of the calendar that every reader but old Spark has. Of ORC, Spark
# leaves out stripes by bounds in whole milliseconds, and rows of the last one with them. A merge that does not find a
# data file, or cannot read it, would drop its rows for good.
EXACT_FILES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
# Every load runs under these, whatever the session it was isolated from says: errors instead of silent NULLs and of
# files that are left out, days as they stand in files, exact names, literals as `spark/sql` writes them, and no time
# zone of a machine. HotSpot compiles no method beyond 8,000 bytes, and Spark puts the fingerprint of 30 columns into
# one that then takes twice as long.
LOAD_CONF = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    **EXACT_FILES,
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
# Spark forgets all but the last 100 classes that it made, and a load of events makes 40: with a few streams each load
# makes its own again, and Java compiles them again.
CLASSES = "1000"
_DEFAULTS = {
    "spark.driver.memory": "4g",
    "spark.sql.codegen.cache.maxEntries": CLASSES,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Other users of the machine reach loopback, too. Spark makes the secret, and tells nobody.
    "spark.authenticate": "true",
    "spark.sql.shuffle.partitions": "32",
}
_JOINED = {EXTENSIONS: ",", "spark.driver.extraJavaOptions": " "}


ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"
"""With the first compiler alone Java reserves 48 MB: 50 streams fill it in minutes, and what was compiled is lost."""
QUICK_OPTIONS = ("-XX:TieredStopAtLevel=1", CODE_CACHE)
"""The first compiler alone: a small load ends before the second would pay."""
LATE_OPTIONS = (
    "-XX:Tier4InvocationThreshold=200000",
    "-XX:Tier4MinInvocationThreshold=24000",
    "-XX:Tier4CompileThreshold=600000",
    "-XX:Tier4BackEdgeThreshold=1600000",
)
"""Both compilers, the second one for code that runs 40 times as often as Java waits for by default: the loops over many
rows, but neither the start nor small loads."""
COLLECTOR = "-XX:+UseG1GC"
HEAP = ("-XX:G1PeriodicGCInterval=30000", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30")
LASTING_OPTIONS = (COLLECTOR, *HEAP, CODE_CACHE)
"""Both compilers, and memory that goes back to the system while nothing happens."""


class Sessions:
    """Spark, built when first needed and never before.

    Args:
        master: `local[*]`, `spark://…`, `yarn`, `k8s://…`; used unless one of the next two is given.
        remote: a Connect server, `sc://…`.
        borrowed: a session of the caller, classic or Connect; it is neither changed nor stopped.
        conf: the user's settings; they win over the defaults.
        lakes: settings of each lake (`Format.spark_conf`), set on every load's session; a JVM of our own starts with
            the secret ones, too.
        jars: Maven coordinates, needed only where a JVM is started.
        log: the file that takes Spark's own output; a temporary one by default.
        secrets: values that no event log and no command line may show, whatever a setting is called.
    """

    def __init__(  # noqa: PLR0913 - the ways to reach Spark and what each load needs
        self,
        *,
        master: str = "local[*]",
        remote: str | None = None,
        borrowed: SparkSession | None = None,
        conf: Mapping[str, str] | None = None,
        lakes: Sequence[Mapping[str, str]] = (),
        jars: Sequence[str] = (),
        log: Path | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self._master = master
        self._remote = remote
        self._borrowed = borrowed
        self._conf = {key: str(value) for key, value in (conf or {}).items()}
        self._lakes = tuple(lakes)
        self._jars = tuple(jars)
        self._log = log
        self._masks = Masks(tuple(secrets))
        self._built: SparkSession | None = None
        self._jvm: Jvm | SharedJvm | None = None
        self._clones: list[SparkSession] = []
        # PySpark shuts a pool of threads when a session of a server is collected, which waits for ever if it happens in
        # the midst of that pool's work: what has ended is not collected while others may run.
        self._ended: list[SparkSession] = []
        self._lock = threading.Lock()
        self._aborted = False
        self._reached = False  # whether the Connect server has been there
        # Set by who knows more than the first load, however small that is: it is used for days, or for a large load.
        self.lasting = self.expects_much = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def started(self) -> bool:
        """Whether this object built a session; asking starts nothing."""
        return self._built is not None

    @property
    def ready(self) -> bool:
        """Whether the next session is there at once; asking starts nothing."""
        return self._built is not None or self._borrowed is not None or (self._remote is None and is_warm())

    def launch(self, *, small: bool = False) -> None:
        """Lets a JVM of our own start beside what the caller does until it asks for a session.

        Does nothing where none has to start, or where a service may have one. What fails, fails in `load_session`.

        Args:
            small: see `load_session`.
        """
        with self._lock, contextlib.suppress(TidegateError):
            # A program that uses PySpark may have a Spark, which would be used.
            if not (self._jvm or self._borrowed or self._remote or provided() or "pyspark" in sys.modules):
                self._jvm = self._launched(small=small)

    def abort(self) -> None:
        """Ends what Spark does for loads in other threads, so that they fail soon; call `stop` afterwards.

        A JVM of our own is killed, one that others use too is asked to drop the work, as a server is. On a session of
        the caller nothing ends.
        """
        self._aborted = True  # a load that fails by it must not start another
        if self._jvm is not None:
            self._jvm.kill()
        self._interrupt()

    def _interrupt(self) -> None:
        for session in tuple(self._clones):
            with contextlib.suppress(Exception):  # a server that does not answer does nothing either
                session.interruptAll()

    def load_session(self, *, small: bool = False) -> SparkSession:
        """A session of one load's own, with the lakes as catalogs and `LOAD_CONF` in force.

        Args:
            small: the plan moves little, so a JVM that starts quickly beats one that runs fast. Counts only for
                the call that starts it.

        Raises:
            SparkLost: the Spark that was started here, or lent, has ended; the next call starts another.
            EnvironmentMissing: Java, a jar or a format's extensions are missing, Spark does not start, or it would
                write a password into its event log.
            ConfigError: a setting that this Spark refuses.
        """
        with self._lock:
            # Two threads that import it at once get halves of it.
            from pyspark.errors import PySparkException  # noqa: PLC0415 - importing pyspark takes a second

            if self._jvm is not None and not self._jvm.alive and not self._aborted:
                self._clones.clear()
                self._drop()
            base = self._built or self._base(small=small)
        keep_secrets()
        try:
            with told_as_lost():
                return self._prepared(base)
        except SparkLost:
            if self._remote is None:
                raise
            return self._prepared(self._reconnected(base))
        except PySparkException as error:
            if error.getCondition() in ("CANNOT_MODIFY_CONFIG", "CANNOT_MODIFY_STATIC_CONFIG"):
                raise ConfigError(
                    "a setting under `spark: conf:` cannot be set on a Spark that is already running",
                    hint="Set it where that Spark is started, or remove it from tidegate.yaml.",
                ) from error
            raise unreachable(self._remote or "the given session") from error
        except OSError as error:
            raise unreachable(self._remote or self._master) from error

    def _reconnected(self, base: SparkSession) -> SparkSession:
        """A session of the server that was started in the place of the one that knew `base`."""
        with self._lock:
            if self._built is base:
                self._ended.append(base)
                self._built = None
            return self._built or self._base(small=False)

    def _prepared(self, base: SparkSession) -> SparkSession:
        session = isolated(base)
        if is_connect(session) or isinstance(self._jvm, SharedJvm):
            self._clones.append(session)
        if self._jvm is None:
            need_jars(session, self._lakes)
        need_settings(session, self._lakes)
        if self._jvm is None:
            self._masks.need(session, (each for each in self._runtime_conf() if each not in LOAD_CONF.items()))
        for key, value in self._runtime_conf():
            session.conf.set(key, value)
        return session

    def release(self, session: SparkSession) -> None:
        """Ends a session from `load_session`; a server drops it at once, a JVM when it is no longer referenced."""
        if not is_connect(session):
            close_catalogs(session)
        if session in self._clones:
            self._clones.remove(session)
            if is_connect(session):  # elsewhere it would stop the whole of Spark
                limit_retries(session, 0)  # a server that is gone has dropped it, of which PySpark warns
                self._ended.append(session)
                with warnings.catch_warnings(action="ignore"):
                    session.stop()

    def stop(self) -> None:
        """Ends what this object created, including the JVM; a session passed in stays open."""
        for session in tuple(self._clones):
            self.release(session)
        with self._lock:
            self._drop()
            self._aborted = False

    def _drop(self) -> None:
        built, self._built = self._built, None
        jvm, self._jvm = self._jvm, None
        if built is not None and not isinstance(jvm, SharedJvm):
            # It may have died, which is what is wanted and what PySpark warns of.
            if is_connect(built):
                self._ended.append(built)
            with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                built.stop()
        if jvm is not None:
            jvm.end()

    def _base(self, *, small: bool) -> SparkSession:
        if self._borrowed is not None:
            return self._borrowed
        if self._remote:
            try:
                self._built = connect(self._remote)
            except EnvironmentMissing as error:
                if not self._reached:
                    raise
                raise SparkLost(error.message, hint=error.hint) from error
            self._reached = True
            return self._built
        from pyspark.sql import SparkSession  # noqa: PLC0415 - importing pyspark takes a second

        active = SparkSession.getActiveSession()
        if active is not None and self._jvm is None:
            # One process holds one Spark: whoever started it here goes on owning it.
            self._borrowed = active
            return active
        silence_refused_statements()
        self._jvm = self._jvm or self._shared() or self._launched(small=small)
        try:
            self._built = self._jvm.connect()
        except BaseException:
            self._jvm = None
            raise
        return self._built

    def _shared(self) -> SharedJvm | None:
        if not provided():
            return None
        options = _lasting_options(self._conf)
        held = lease(JvmSpec(conf=self._start_conf(options), user=self._conf, jars=self._driver_jars()))
        return SharedJvm(held, self._interrupt) if held is not None else None

    def _launched(self, *, small: bool) -> Jvm:
        jvm = Jvm()
        jvm.launch(self._start_conf(self._java_options(small=small)), self._log, self._driver_jars())
        return jvm

    def _driver_jars(self) -> Sequence[Path]:
        return resolve(archive.ordered(self._jars)) if self._local else ()

    @property
    def _local(self) -> bool:
        return re.match(r"local(\[|$)", self._master) is not None

    def _runtime_conf(self) -> Iterable[tuple[str, str]]:
        if self._jvm is None:
            # Nobody else sets the user's settings on a session that was not started here.
            yield from ((key, value) for key, value in self._conf.items() if key != EXTENSIONS)
        yield from LOAD_CONF.items()
        for lake in self._lakes:
            yield from ((key, value) for key, value in lake.items() if key not in STARTED_WITH)

    def _java_options(self, *, small: bool) -> Sequence[str]:
        if self.lasting:
            return _lasting_options(self._conf)
        if not small or not self._local:
            return ()
        return LATE_OPTIONS if self.expects_much else QUICK_OPTIONS

    def _start_conf(self, options: Sequence[str] = ()) -> dict[str, str]:
        self._masks.need_unshown(self._conf)
        conf = {"spark.app.name": "tidegate", **_DEFAULTS, **(_LOCAL_DEFAULTS if self._local else {})}
        # Spark's event log masks secrets only in settings that Spark was started with.
        for lake in self._lakes:
            conf |= {key: value for key, value in lake.items() if key == LOG_STORE or self._masks.hide(key, value)}
        java = ["-Duser.timezone=UTC", END_WITHOUT_MEMORY, *options]
        if self._local:
            if mask := os.environ.get("TIDEGATE_UMASK"):
                conf["spark.hadoop.fs.permissions.umask-mode"] = mask
            if LOCAL_FILES in self._jars:
                for catalog in (key for lake in self._lakes for key, value in lake.items() if value == ICEBERG_CATALOG):
                    conf |= local_files(catalog)
            java += archive.options(self._jars)
        elif self._jars:
            conf["spark.jars"] = ",".join(map(str, resolve(self._jars)))
        conf["spark.driver.extraJavaOptions"] = " ".join(java)
        conf["spark.executor.extraJavaOptions"] = "-Duser.timezone=UTC"
        if extensions := extensions_of(self._lakes):
            conf[EXTENSIONS] = ",".join(extensions)
        for key, value in self._conf.items():
            separator = _JOINED.get(key)
            conf[key] = f"{conf[key]}{separator}{value}" if separator and key in conf else value
        return {**self._masks.masked(conf), "spark.master": self._master}


def isolated(session: SparkSession) -> SparkSession:
    """A session with settings and views of its own on the same Spark; works for classic and Connect."""
    # The two classes share no method for it, and only classic's is typed.
    either: Any = session
    if not is_connect(session):
        return cast("SparkSession", either.newSession())
    # A server knows a session from its first question on, and clones only what it knows.
    session.conf.get("spark.sql.session.timeZone")
    clone = either.cloneSession()
    clone.release_session_on_close = True  # PySpark 4.1 forgets it on clones, and their stop() fails without it
    limit_retries(clone)
    return cast("SparkSession", clone)


@dataclass(frozen=True, slots=True)
class SessionsOnDemand:
    """Sessions whose settings are put together only when a question needs Spark."""

    make: Callable[[], Sessions]

    def load_session(self, *, small: bool = False) -> SparkSession:
        return self.make().load_session(small=small)

    def release(self, session: SparkSession) -> None:
        self.make().release(session)


def close_catalogs(session: SparkSession) -> None:
    """Closes the connections of the session's own Iceberg catalogs; the session is of no use for them afterwards.

    A JVM that runs for days would otherwise keep two open files, or connections to a server, for each load.

    Args:
        session: a classic one, of one load.
    """
    java: Any = session  # neither is part of PySpark's typed surface
    with contextlib.suppress(Exception):  # of a JVM that has died nothing is left open
        manager = java._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - only Java has it
        made = manager.listCatalogs(java._jvm.scala.Option.empty())  # noqa: SLF001 - those that were used
        for number in range(made.size()):
            catalog = manager.catalog(made.apply(number))
            if catalog.getClass().getName() == ICEBERG:
                catalog.icebergCatalog().close()


def local_files(catalog: str) -> dict[str, str]:
    """Settings by which an Iceberg catalog writes files of this machine without a program started for each.

    Hadoop starts two, 7 ms of a small load's 600 for each file. For Iceberg's catalogs alone and kept out of Hadoop's
    cache: as the file system of all of Spark, the class in `jars.LOCAL_FILES` does not list a folder behind a link.

    Args:
        catalog: the setting that makes it one, `spark.sql.catalog.<name>`.
    """
    key = f"{catalog}.hadoop.fs.file.impl"
    return {key: "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem", f"{key}.disable.cache": "true"}


def _lasting_options(user: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a JVM that runs for days, to stand before the user's, which win.

    Args:
        user: the project's settings of Spark; two collectors at once start no JVM.
    """
    chosen = user.get(JAVA_OPTIONS, "").split()
    if any(each.startswith("-XX:+Use") and each.endswith("GC") for each in chosen):
        return tuple(each for each in LASTING_OPTIONS if each != COLLECTOR)
    return LASTING_OPTIONS
