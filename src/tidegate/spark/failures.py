"""Translates failures of Spark and the table formats into Tidegate errors.

Never repeats a Spark message that may contain values of rows, which only the error's cause has: a reason consists of
names and types.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any
from urllib.parse import unquote

from tidegate.core.refusals import marked_text
from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    EnvironmentMissing,
    FileUnreadable,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceUnavailable,
    SparkLost,
    TidegateError,
    WriteError,
)

_FAILED_JOB = re.compile(r"Job aborted due to stage failure|STAGE_FAILURE|TASK_FAILURE|FAILED_READ|in stage \d")
UNFIT = "tidegate file: "
"""What the reader of text files says before the JSON of a file, a column and why its value cannot be taken."""
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
_DRIVER = re.compile(r"java\.sql\.|PSQLException|SQLITE_|SQLiteException|SQLException")
# What Spark says of a file that it was given to read; its words about a row hold the row's values.
_FILE = re.compile(r"Encountered error while reading file (?P<uri>\S+?)\.?(?:\s|$)")
_ROW = re.compile(r"MALFORMED_RECORD_IN_PARSING|BadRecordException|Malformed (?:record|line)")
# Causes that speak of bytes, never of a row's values.
_REASON = re.compile(
    r"(?:EOFException|ZipException|DataFormatException|ParquetDecodingException|FileFormatException): "
    r"([A-Z](?:(?!file:|s3a?:)[^\n\"'])*)"
)
_NANOSECONDS = "nanos > 999999999 or < 0"
_FILE_GONE = re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST|FAILED_READ_FILE\.PATH_NOT_FOUND")
_DIED = re.compile(r"^(?:Py4JNetworkError|ConnectionRefusedError|ConnectionResetError)\b", re.MULTILINE)
# What py4j raises where the JVM died while it answered, and also where it has no answer: an argument that Java refuses.
_NO_ANSWER = re.compile(r"^Py4JError\b", re.MULTILINE)
PATIENCE = 1.0
"""Seconds within which a process that dies refuses connections."""
_PROBLEMS = (
    (
        re.compile(
            r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAuthWithAWS|NoAwsCredentials"
            r"|[Ss]tatus [Cc]ode: 40[13]\b|AccessDeniedException: s3"
        ),
        "an object store denied access",
        "Correct the credentials: environment, profile, machine role, or the settings `s3.…` and `fs.s3a.…`.",
    ),
    (
        re.compile(r"No FileSystem for scheme|UnsupportedFileSystemException"),
        "Spark has no file system of that kind",
        "Use `s3a://` instead of `s3://`, or set `spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem`.",
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
        re.compile(r"SQLITE_BUSY|SQLITE_LOCKED|database is locked"),
        "the lake's catalog is locked by another process",
        "Run again when that process has finished; `tidegate doctor` shows the catalog's file.",
    ),
    (
        re.compile(r"OutOfMemoryError"),
        "Spark has too little memory",
        "Give it more: `spark: {conf: {spark.driver.memory: 8g}}`; then run again.",
    ),
    (
        re.compile(r"UncheckedSQLException|SQLITE_|PSQLException|RESTException|ServiceFailure|ServiceUnavailable"),
        "the lake's catalog cannot be reached or refused",
        None,
    ),
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
def needing(driver: str, jars: Sequence[str]) -> Iterator[None]:
    """Makes an error of a session that was started without a database's driver one that says how to start it.

    Raises:
        EnvironmentMissing: Spark does not find the class.
    """
    try:
        yield
    except Exception as error:
        if "ClassNotFoundException" not in str(error) or driver not in str(error):
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
    """Turns what py4j raises where the JVM has died, wherever Spark was asked, into an error that says so.

    Raises:
        SparkLost: see there.
    """
    try:
        yield
    except Exception as error:
        asked = any(
            frame.f_globals.get("__name__", "").startswith("py4j.") for frame, _ in walk_tb(error.__traceback__)
        )
        if isinstance(error, TidegateError) or not (asked and _died(everything(error))):
            raise
        raise SparkLost("Spark's process ended") from error


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
    if bad := marked_text(text):
        return SchemaRefused(
            bad,
            hint="Correct the value at the source, or leave it out with a `query:`.",
        )
    if found := _structured_error(text):
        return unfit(found["file"], found["column"], found["reason"])
    file = _FILE.search(text)
    if file or _ROW.search(text):
        return _unreadable(unquote(file["uri"]).rpartition("/")[2] if file else "a file", text)
    job = _FAILED_JOB.search(text)
    if _UNKNOWN.search(text):
        return CommitUnknown(f"the reply to a commit was lost while {doing}")
    if job and _REFUSED.search(text[job.start() :]):
        return SourceError(
            f"the source rejected a statement while {doing}",
            hint="Correct the row or the `query:` that it rejects; `--log-level debug` shows its message.",
        )
    if job and _TIMED_OUT.search(text[job.start() :]):
        return SourceError(
            f"the source ended a statement that took longer than its limit allows while {doing}",
            hint="Raise `statement_timeout` (PostgreSQL) or `max_statement_time` (MariaDB) for the user that Tidegate "
            "connects as, such as `ALTER ROLE … SET statement_timeout = 0`; then run again.",
        )
    if job and _DRIVER.search(text[job.start() :]):
        return SourceUnavailable(f"the connection to the source was lost while {doing}")
    if _CONFLICT.search(text):
        return CommitConflict(f"another writer committed while {doing}")
    if _died(text):
        return SparkLost(f"Spark's process ended while {doing}")
    for pattern, message, hint in _PROBLEMS:
        if pattern.search(text):
            lacked = _LACKED.search(text)
            name = f" ({lacked['name'] or lacked['plugin']})" if lacked and "class" in message else ""
            return WriteError(f"{message.format(where=warehouse or '')}{name} while {doing}", hint=hint)
    if _GONE.search(text):
        return CommitConflict(f"the table or a version of it no longer exists while {doing}")
    return WriteError(f"Spark failed ({_name(error, text)}) while {doing}")


def unfit(file: str, column: str, reason: str) -> FileUnreadable:
    """The error of a value, or of a whole document where no column is named, that cannot be taken."""
    if not column:
        return FileUnreadable(
            f"{file} contains a document that cannot be read: {reason}",
            hint="Write one JSON object per line, or one array of objects, then run again.",
            file=file,
        )
    return FileUnreadable(
        f"{file}: a value of column {column!r} is not exactly a {reason}",
        hint=f"Correct the file, or declare its format: `source: {{columns: {{{column}: …}}, options: {{decimal: …, "
        "round: true, dateFormat: …}}`.",
        file=file,
        column=column,
    )


def _structured_error(text: str) -> dict[str, str] | None:
    for part in text.split(UNFIT)[1:]:
        try:
            found, _ = json.JSONDecoder().raw_decode(part)
        except ValueError:
            continue
        return {name: str(value) for name, value in found.items()}
    return None


def _unreadable(name: str, text: str) -> TidegateError:
    if _FILE_GONE.search(text):
        return SourceMoved(f"{name} was listed but no longer exists", hint="Run again.")
    if _ROW.search(text):
        return FileUnreadable(
            f"a row of {name} does not match its columns: too few or too many values, a value of the wrong type, or a "
            f"truncated row",
            hint="Correct or complete the file, or declare the types under `source: {columns: …}`, then run again.",
            file=name,
        )
    reason = _REASON.search(text)
    why = f": {reason[1].strip()}" if reason else ""
    if _NANOSECONDS in text:
        why = ": Spark cannot read an ORC timestamp within the last second before 1970"
    return FileUnreadable(f"{name} is truncated, damaged or not of its format{why}", file=name)


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
        return f"{found['condition']}: {reason[:_LONGEST]}"
    if found := _CONDITION.search(text):
        return found[1]
    classes = [name.rpartition(".")[2] for name in _CLASS.findall(text) if not name.startswith("py4j")]
    return classes[-1] if classes else type(error).__name__
