"""Translates failures of Spark and the table formats into Tidegate errors.

Never repeats a Spark message that may contain values of rows, which only the error's cause has: a reason consists of
names and types.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any, cast
from urllib.parse import unquote

from tidegate.core.cutting import cut
from tidegate.core.refusals import marked_text
from tidegate.core.server_limits import limit_of
from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    EnvironmentMissing,
    OutOfMemory,
    SchemaRefused,
    SourceError,
    SourceUnavailable,
    SparkLost,
    TidegateError,
    WriteError,
)
from tidegate.spark.file_failures import of_files

_FAILED_JOB = re.compile(r"Job aborted due to stage failure|STAGE_FAILURE|TASK_FAILURE|FAILED_READ|in stage \d")
_UNKNOWN = re.compile(r"CommitStateUnknown")
_CONFLICT = re.compile(
    r"is not an ancestor of|CommitFailedException|ValidationException|Cannot commit"
    r"|metadata refresh is required|Found conflicting files|Missing required files"
    r"|DELTA_CONCURRENT_|Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction|Write)Exception"
    r"|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|MetadataChangedException|ProtocolChangedException"
)
_GONE = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|NoSuchTable|Cannot find snapshot|Ref does not exist|Branch does not exist")
# The server's own words for a statement that it will refuse again; what ends a session or a snapshot is none.
_REFUSED = re.compile(r"PSQLException: ERROR: (?![^\n]*snapshot|canceling|terminating)")
_TIMED_OUT = re.compile(r"canceling statement due to statement timeout|max_statement_time exceeded|ER_QUERY_TIMEOUT")
_NULL = re.compile(
    r"\[NOT_NULL_ASSERT_VIOLATION\][^\n:]*:\s*(?P<column>[^\n]+?)\s*(?:\n|If the schema)"
    r"|\[DELTA_NOT_NULL_CONSTRAINT_VIOLATED\][^\n:]*:\s*(?P<of_delta>[^\n]+?)\.?\s*(?:\n|$)"
)
_TOO_LONG = re.compile(r"File name too long|Mkdirs failed to create|KeyTooLong")
_FOLDER = re.compile(r"/(?P<column>[^/=\s]+)=(?:(?!: File name too long| \(exists=)[^/\n])*")
# What Kafka's client says of brokers that do not answer, and what Spark's source makes of it.
_KAFKA = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable)"
    r"|Cannot fetch (?:record for )?offsets? .{0,200} in \d+ milliseconds"
)
# Not the values of that package, which Spark's readers of files use, too.
_DRIVER = re.compile(r"java\.sql\.(?!Timestamp\b|Date\b|Time\b)|PSQLException|SQLITE_|SQLiteException|SQLException")
_DIED = re.compile(r"^(?:Py4JNetworkError|ConnectionRefusedError|ConnectionResetError)\b", re.MULTILINE)
# What py4j raises where the JVM died while it answered, and also where it has no answer: an argument that Java refuses.
# An error of Java is without its reason where the JVM died before it was asked for that.
_NO_ANSWER = re.compile(r"^Py4J(?:Java)?Error\b", re.MULTILINE)
# What the client of Spark Connect raises where the server is gone, or is another one that does not know the session.
_SERVER_GONE = re.compile(
    r"StatusCode\.UNAVAILABLE|\[NO_ACTIVE_SESSION\]"
    r"|INVALID_HANDLE\.(?:SESSION_(?:CHANGED|CLOSED|NOT_FOUND)|OPERATION_(?:ABANDONED|NOT_FOUND))"
)
REFUSED_BY_CATALOG = (
    "Correct `credential:`, `scope:`, `oauth2-server-uri:` or `token:` of the catalog, or grant more; a token that is "
    "given cannot be renewed."
)
CATALOG_LOST = "the lake's catalog cannot be reached or refused"
# Of Java, of Spark, and of the drivers, which catch what Java raises or count for themselves.
_NO_MEMORY = re.compile(r"OutOfMemory(?:Error|Exception)|OutOfDirectMemory|Ran out of memory|Cannot reserve additional")
ENDED_WITHOUT_MEMORY = 3
"""What a Java that was started to end when its memory does not suffice ends with."""
LONGEST_NAME = 255
PATIENCE = 1.0
"""Seconds within which a process that dies refuses connections."""
_PROBLEMS = (
    (
        re.compile(r"overwrites an existing file although the request forbids it"),
        "the store of {where} overwrites an existing file although the request forbids it (If-None-Match)",
        (
            "Two writers would lose commits there: use another store, an Iceberg lake, or a log store of Delta that "
            "needs no such request, in `spark: {conf: {spark.delta.logStore.s3a.impl: …}}`."
        ),
    ),
    (
        re.compile(r"iceberg\.exceptions\.(?:NotAuthorized|Forbidden)Exception|RESTException: [^\n]*\(code: 419\b"),
        "the lake's catalog refused the login, or what it may do,",
        REFUSED_BY_CATALOG,
    ),
    (
        re.compile(
            r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAuthWithAWS|NoAwsCredentials"
            r"|[Ss]tatus [Cc]ode: 40[13]\b|AccessDeniedException: s3|provided token has expired"
            r"|Unable to load credentials"
        ),
        "an object store denied access",
        (
            "Correct the credentials: environment, profile, machine role, or the settings `s3.…` and `fs.s3a.…`. Those "
            "that a catalog gave end after a while: run again."
        ),
    ),
    (
        re.compile(r"No FileSystem for scheme|UnsupportedFileSystemException"),
        "Spark has no file system of that kind",
        (
            "Use `s3a://` instead of `s3://`, or set `spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem`. "
            "A catalog that keeps tables in S3 needs an option of the store, such as `s3.endpoint`, or `warehouse:`."
        ),
    ),
    (
        re.compile(r"No space left|Disk quota exceeded|DSQuotaExceeded|QuotaExceededException"),
        "a disk is full: that of the warehouse {where}, or that of Spark's temporary files,",
        (
            "Delete what is not needed to make room; `tidegate doctor` shows how much is free. Spark's temporary files "
            "go where `spark: {conf: {spark.local.dir: …}}` says."
        ),
    ),
    (
        re.compile(
            r"Permission denied|AccessControlException|AccessDenied|Mkdirs failed|Failed to create (?:file|director)"
            r"|ParentNotDirectory|Not a directory|FileAlreadyExistsException|Read-only file system"
        ),
        "the warehouse {where} cannot be written",
        "Grant write permission, then run `tidegate doctor`.",
    ),
    (
        re.compile(r"ClassNotFoundException|NoClassDefFoundError|Cannot find catalog plugin|CATALOG_NOT_FOUND"),
        "Spark lacks a class that the lake needs",
        "A running Spark needs the lake's jars on its class path; `tidegate doctor` lists them.",
    ),
    (
        re.compile(r"Invalid (?:update|snapshot) timestamp"),
        "the clock of this machine is behind the last commit of the table",
        (
            "Correct the clock, then run again. After a commit by a clock that was ahead, an Iceberg table takes no "
            "other before that time."
        ),
    ),
    (
        re.compile(r"SQLITE_BUSY|SQLITE_LOCKED|database is locked"),
        "the lake's catalog is locked by another process",
        "Run again when that process has finished; `tidegate doctor` shows the catalog's file.",
    ),
    (
        re.compile(r"UncheckedSQLException|SQLITE_|PSQLException|RESTException|ServiceFailure|ServiceUnavailable"),
        CATALOG_LOST,
        None,
    ),
    (
        re.compile(r"HttpHostConnectException|SdkClientException: Unable to execute HTTP request"),
        "an object store cannot be reached",
        "Run again when it can; `tidegate doctor` tests catalog and warehouse.",
    ),
    # Whatever Spark makes of it: an error within the client of the catalog.
    (re.compile(r"^\s*at org\.apache\.iceberg\.(?:rest|jdbc)\.", re.MULTILINE), CATALOG_LOST, None),
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# Conditions whose sentences name tables, columns, types, functions and settings, and nothing of a row. Source: Spark's
# error-conditions.json.
_SAYS_NAMES = re.compile(
    r"\[(?P<condition>(?:UNRESOLVED_(?:COLUMN|ROUTINE|FIELD)|TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND|CATALOG_NOT_FOUND"
    r"|DATA_SOURCE_NOT_FOUND|COLUMN_ALREADY_EXISTS|UNSUPPORTED_(?:FEATURE|DATATYPE|DATA_TYPE_FOR_DATASOURCE|SAVE_MODE)"
    r"|INCOMPATIBLE_DATA_FOR_TABLE|CANNOT_MODIFY_(?:CONFIG|STATIC_CONFIG)|INSUFFICIENT_PERMISSIONS"
    r"|FORBIDDEN_OPERATION|PATH_NOT_FOUND|DELTA_(?:UNSUPPORTED_FEATURES_FOR_READ|UNSUPPORTED_FEATURES_FOR_WRITE"
    r"|FEATURES_PROTOCOL_METADATA_MISMATCH|UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP|INVALID_CHARACTERS_IN_COLUMN_NAMES"
    r"|CONCURRENT_[A-Z_]+|METADATA_CHANGED|PROTOCOL_CHANGED))(?:\.[A-Z0-9_]+)*)\]\s*(?P<reason>[^\n]+)"
)
_LONGEST = 300
_LACKED = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError): (?P<name>[\w.$/]+)"
    r"|plugin class for catalog '[^']*': (?P<plugin>[\w.$]+)"
)
_CLASS = re.compile(r"\b(?:[a-z]\w*\.)+(?:[A-Z]\w*(?:Exception|Error))\b")


@contextmanager
def needing(driver: str, jars: Sequence[str], connection: str) -> Iterator[None]:
    """Tells of a database that Spark asks for the columns of a query why it does not answer.

    Raises:
        EnvironmentMissing: Spark was started without the driver; how to start it with one.
        SourceUnavailable: the driver does not reach the server, or has lost it.
    """
    try:
        yield
    except Exception as error:
        if "ClassNotFoundException" not in str(error) or driver not in str(error):
            text = everything(error)
            if limited := _limited(text, f"connection {connection!r} was asked for columns"):
                raise limited from error
            if _DRIVER.search(text) and not (_REFUSED.search(text) or "SQLSyntaxErrorException" in text):
                raise SourceUnavailable(
                    f"connection {connection!r}: Spark's driver cannot reach the server, or has lost it"
                ) from error
            raise
        raise EnvironmentMissing(
            f"the Spark session lacks the class {driver}, with which it reads that database",
            hint=f"Start that Spark with `spark.jars.packages={','.join(jars)}`, or with that jar on its class path.",
        ) from error


@contextmanager
def translated(doing: str, warehouse: str | None = None) -> Iterator[None]:
    """Turns every failure of Spark inside into one of Tidegate's, with the original as its cause.

    Args:
        doing: what was attempted, to go after "while": "writing to lake.shop.orders".
    """
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        raise translate(error, doing, warehouse) from error


@contextmanager
def told_as_lost() -> Iterator[None]:
    """Turns what PySpark raises where the JVM or the server has died, wherever it was asked, into a clear error.

    Raises:
        SparkLost: see there.
    """
    try:
        yield
    except Exception as error:
        clients = ("py4j.", "pyspark.")
        asked = any(
            frame.f_globals.get("__name__", "").startswith(clients) for frame, _ in walk_tb(error.__traceback__)
        )
        if isinstance(error, TidegateError) or not (asked and (lost := _lost(everything(error)))):
            raise
        raise lost from error


def _lost(text: str, doing: str = "") -> SparkLost | None:
    """What of Spark has ended, if that is why it failed."""
    if _SERVER_GONE.search(text):
        return SparkLost(f"the Spark Connect server was lost{doing}")
    if not _died(text):
        return OutOfMemory(f"Spark's memory did not suffice{doing}") if _NO_MEMORY.search(text) else None
    if _exit_code() == ENDED_WITHOUT_MEMORY:
        return OutOfMemory(f"Spark's process ended, because its memory did not suffice{doing}")
    return SparkLost(f"Spark's process ended{doing}")


def _exit_code() -> int | None:
    """Of the process of this process's Spark; None where it lives, or is another's."""
    from pyspark import SparkContext  # noqa: PLC0415 - importing pyspark takes a second

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - see `Jvm.connect`
    try:
        return cast("int", process.wait(PATIENCE)) if process is not None else None
    except subprocess.TimeoutExpired:
        return None


def _died(text: str) -> bool:
    return bool(_DIED.search(text)) or (bool(_NO_ANSWER.search(text)) and not jvm_answers())


def jvm_answers() -> bool:
    """Whether the JVM of this process's Spark takes connections; False where there is none."""
    from pyspark import SparkContext  # noqa: PLC0415 - importing pyspark takes a second

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - nothing else knows where it listens
    if gateway is None:
        return False
    where = (gateway.gateway_parameters.address, gateway.gateway_parameters.port)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            socket.create_connection(where, timeout=PATIENCE).close()
        except OSError:
            return False
        time.sleep(PATIENCE / 10)
    return True


def translate(error: BaseException, doing: str, warehouse: str | None = None) -> TidegateError:  # noqa: C901, PLR0911 - one return a meaning
    """The error that the failure stands for."""
    text = everything(error)
    if of_value := _of_value(text, doing):
        return of_value
    if of_file := of_files(text):
        return of_file
    job = _FAILED_JOB.search(text)
    if _UNKNOWN.search(text):
        return CommitUnknown(f"the reply to a commit was lost while {doing}")
    if _NO_MEMORY.search(text):
        return OutOfMemory(f"Spark's memory did not suffice while {doing}")
    if of_source := _source_failure(text[job.start() :] if job else "", text, doing):
        return of_source
    if _CONFLICT.search(text):
        return CommitConflict(f"another writer committed while {doing}")
    if lost := _lost(text, f" while {doing}"):
        return lost
    for pattern, message, hint in _PROBLEMS:
        if pattern.search(text):
            lacked = _LACKED.search(text)
            name = f" ({lacked['name'] or lacked['plugin']})" if lacked and "class" in message else ""
            return WriteError(f"{message.format(where=warehouse or '')}{name} while {doing}", hint=hint)
    if _GONE.search(text):
        return CommitConflict(f"the table or a version of it no longer exists while {doing}")
    return WriteError(f"Spark failed ({_name(error, text)}) while {doing}")


def _of_value(text: str, doing: str) -> SchemaRefused | None:
    """A value that its column does not take; said without the value."""
    if bad := marked_text(text):
        return SchemaRefused(bad, hint="Correct the value at the source, or leave it out with a `query:`.")
    if null := _NULL.search(text):
        column = (null["column"] or null["of_delta"]).strip("`")
        return SchemaRefused(
            f"column {column!r} of the table takes no NULL, and a row has one, while {doing}",
            hint="Correct the row at the source, or let the table's column become nullable: `contract: {nullability: "
            "evolve}`.",
            column=column,
        )
    if (column := _long_folder(text)) is not None:
        return SchemaRefused(
            f"the table is partitioned by {column!r}, and a value of it is too long for the name of a folder (255 "
            f"bytes, of which a character takes up to 12), while {doing}",
            hint="Partition an Iceberg table by the beginning of its values, `layout: {partition_by: "
            f'["truncate(20, {column})"]}}`, or any table by another column; for `by_substr` of strategy checksum '
            "state a smaller `length:`.",
            column=column,
        )
    return None


def _long_folder(text: str) -> str | None:
    """The column by whose value a folder has a name that is too long."""
    if not _TOO_LONG.search(text):
        return None
    folders = ((unquote(found["column"]), found[0][1:]) for found in _FOLDER.finditer(text))
    return next((column for column, folder in folders if len(folder.encode()) > LONGEST_NAME), None)


def _source_failure(job: str, text: str, doing: str) -> SourceError | None:
    """What the source is to blame for.

    Args:
        job: what was said of a job that failed; empty if none did.
    """
    if limited := _limited(job, doing):
        return limited
    if _REFUSED.search(job):
        return SourceError(
            f"the source rejected a statement while {doing}",
            hint="Correct the row or the `query:` that it rejects; `--log-level debug` shows its message.",
        )
    if _TIMED_OUT.search(job):
        return SourceError(
            f"the source ended a statement that took longer than its limit allows while {doing}",
            hint="Raise `statement_timeout` (PostgreSQL) or `max_statement_time` (MariaDB) for the user that Tidegate "
            "connects as, such as `ALTER ROLE … SET statement_timeout = 0`; then run again.",
        )
    if _DRIVER.search(job):
        return SourceUnavailable(f"the connection to the source was lost while {doing}")
    if _KAFKA.search(text):
        return SourceUnavailable(f"the brokers of the topic did not answer while {doing}")
    return None


def _limited(text: str, doing: str) -> SourceError | None:
    """What the server refuses for now."""
    limit = limit_of(text)
    return None if limit is None else limit.error(f"{limit.reason}, while {doing}")


def failed_in_a_job(text: str) -> bool:
    """Whether rows were being read or written when Spark failed."""
    return _FAILED_JOB.search(text) is not None


def everything(error: BaseException) -> str:
    """What the error and its causes say, the server's stack included; for recognition, never for people."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(f"{type(current).__name__}: {current}")
        parts += [str(getattr(current, name, None) or "") for name in ("_stackTrace", "_stacktrace")]
        current = current.__cause__ or getattr(current, "_cause", None)
    return "\n".join(parts)


def _name(error: BaseException, text: str) -> str:
    if found := _SAYS_NAMES.search(text):
        reason = re.split(r"\s*SQLSTATE|\s*;\s*line \d", found["reason"])[0].rstrip(". ")
        return f"{found['condition']}: {cut(reason, _LONGEST)}"
    if found := _CONDITION.search(text):
        return found[1]
    classes = [name.rpartition(".")[2] for name in _CLASS.findall(text) if not name.startswith("py4j")]
    return classes[-1] if classes else type(error).__name__
