"""Decides what a failure of Spark or a table format means to a load.

Called by formats and writers around whatever makes Spark work. Must never repeat Spark's own text in a message: it
may hold values of rows, and the cause carries it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    FileUnreadable,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceUnavailable,
    TidegateError,
    WriteError,
)

_FAILED_JOB = re.compile(r"Job aborted due to stage failure|STAGE_FAILURE|TASK_FAILURE|FAILED_READ|in stage \d")
# What the dialects' expressions say about a value that a column's type does not allow; it names no value. Followed by
# `' ||` it is only the statement, quoted in an error about something else.
_POISON = re.compile(
    r"tidegate: (column (?:(?!' \|\|).)+? holds a value that (?:(?!' \|\|)[^\"\n])+(?=[\"\n]|\Z)"
    r"|a value of column [^\"\n]+ is not an? \w+)"
)
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
_DRIVER = re.compile(r"java\.sql\.|PSQLException|SQLITE_|SQLiteException|SQLException")
# What Spark says of a file that it was given to read; its words about a row hold the row's values.
_FILE = re.compile(r"Encountered error while reading file (?P<uri>\S+?)\.?(?:\s|$)")
_ROW = re.compile(r"MALFORMED_RECORD_IN_PARSING|BadRecordException|Malformed (?:record|line)")
_FILE_GONE = re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST|FAILED_READ_FILE\.PATH_NOT_FOUND")
_PROBLEMS = (
    (
        re.compile(r"^(?:Py4JError|Py4JNetworkError|ConnectionRefusedError|ConnectionResetError)\b", re.MULTILINE),
        "Spark's process ended",
        "Was it killed for its memory? Change `spark: {conf: {spark.driver.memory: 4g}}`, then run again.",
    ),
    (
        re.compile(
            r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAuthWithAWS|NoAwsCredentials"
            r"|[Ss]tatus [Cc]ode: 40[13]\b|AccessDeniedException: s3"
        ),
        "an object store refused the login, or what it may do,",
        "Correct the login: the environment, a profile, the machine's role, or the settings `s3.…` and `fs.s3a.…`.",
    ),
    (
        re.compile(r"No FileSystem for scheme|UnsupportedFileSystemException"),
        "Spark knows no file system of that kind",
        "Write `s3a://` for `s3://`, or set `spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem`.",
    ),
    (
        re.compile(
            r"Permission denied|AccessControlException|AccessDenied|Mkdirs failed|Failed to create (?:file|director)"
            r"|ParentNotDirectory|Not a directory|FileAlreadyExistsException|Read-only file system|No space left"
        ),
        "the warehouse {where} cannot be written",
        "Grant write permission or make room, then run `tidegate doctor`.",
    ),
    (
        re.compile(r"ClassNotFoundException|NoClassDefFoundError|Cannot find catalog plugin|CATALOG_NOT_FOUND"),
        "Spark lacks a class that the lake needs",
        "A Spark that runs already needs the lake's jars on its class path; `tidegate doctor` lists them.",
    ),
    (
        re.compile(r"UncheckedSQLException|SQLITE_|PSQLException|RESTException|ServiceFailure|ServiceUnavailable"),
        "the lake's catalog cannot be reached or refused",
        None,
    ),
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_CLASS = re.compile(r"\b(?:[a-z]\w*\.)+(?:[A-Z]\w*(?:Exception|Error))\b")


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


def translate(error: BaseException, doing: str, warehouse: str | None = None) -> TidegateError:  # noqa: PLR0911 - one return a meaning
    """The error that the failure stands for."""
    text = everything(error)
    if poison := _POISON.search(text):
        return SchemaRefused(
            poison[1].replace("''", "'").strip(),
            hint="Correct the value at the source, or leave it out with a `query:`.",
        )
    file = _FILE.search(text)
    if file or _ROW.search(text):
        return _unreadable(unquote(file["uri"]).rpartition("/")[2] if file else "a file", text)
    job = _FAILED_JOB.search(text)
    if _UNKNOWN.search(text):
        return CommitUnknown(f"the reply to a commit was lost while {doing}")
    if job and _REFUSED.search(text[job.start() :]):
        return SourceError(
            f"the source refused a statement while {doing}",
            hint="Correct the row or the `query:` that it refuses; `--log-level debug` shows its words.",
        )
    if job and _DRIVER.search(text[job.start() :]):
        return SourceUnavailable(f"the source broke off while {doing}")
    if _CONFLICT.search(text):
        return CommitConflict(f"another writer came in between while {doing}")
    for pattern, message, hint in _PROBLEMS:
        if pattern.search(text):
            return WriteError(f"{message.format(where=warehouse or '')} while {doing}", hint=hint)
    if _GONE.search(text):
        return CommitConflict(f"the table or a version of it is not there any more while {doing}")
    return WriteError(f"Spark failed ({_name(error, text)}) while {doing}")


def _unreadable(name: str, text: str) -> TidegateError:
    if _FILE_GONE.search(text):
        return SourceMoved(f"{name} was listed and is gone", hint="Run again.")
    if _ROW.search(text):
        return FileUnreadable(
            f"a row of {name} does not fit its columns: too few or too many values, one that is not of its type, or an "
            "end in the middle",
            hint="Correct or complete the file, or state the types under `source: {columns: …}`, then run again.",
            file=name,
        )
    return FileUnreadable(f"{name} is cut short, damaged or not of its format", file=name)


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
    if found := _CONDITION.search(text):
        return found[1]
    classes = [name.rpartition(".")[2] for name in _CLASS.findall(text) if not name.startswith("py4j")]
    return classes[-1] if classes else type(error).__name__
