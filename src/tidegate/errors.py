"""Every error that Tidegate raises, and how to resolve each.

Used by every layer; imports nothing else of Tidegate. An error never contains a secret.

    TidegateError
      ConfigError                  the project file or the command line is wrong
        UnknownPlugin              a kind that no plugin provides
        Incompatible               parts that cannot work together
        EnvironmentMissing         Java, jars or a package are missing or too old
      SourceError                  the database or files that rows come from
        SourceUnavailable *        unreachable, or the connection was lost
          SourceRefused            a wrong login, or a database that does not exist
        SourceMoved *              changed while it was being read
        FileUnreadable             a file that is truncated, damaged or not of its format
        ColumnMissing              a column or table that does not exist
        HistoryGone                the source no longer continues what was loaded
        EdgeUnknown                it is unknown which rows are still being written
      PlanError                    the load must not start
        SchemaRefused              the contract forbids a change of columns
        ColumnsUnknown             no file or event is there yet that would show the columns
        DeleteFuse                 more rows were deleted at the source than one load may delete
      CheckFailed                  rows that must not be published
        DuplicateKeys              several rows with one key, and no order to choose by
      WriteError                   the lake refused a write
        CommitConflict *           another writer committed in the meantime
        CommitUnknown *            the reply to a commit was lost
        SparkLost *                Spark's process ended in the middle
          OutOfMemory *            because its memory did not suffice
        TableDamaged               a data file of the table that is missing, cut or overwritten
        VersionGone                an older version of the table that is no longer kept
        RowsMoved                  rows moved out of partitions that the load did not compare
      VerifyFailed                 table and source differ after the write; not published, but visible on Delta
      HookFailed                   a hook of `after_publish:` did not succeed; never an error of a load
      RegistryError                the registry of positions and runs
        RegistryUnavailable *      unreachable or unreadable
        PositionMoved              the table's position is not the expected one
        PositionMissing            the table has rows but no position
        LeaseHeld                  another runner is working on the stream
        LeaseLost                  another runner took over the stream
      InternalError                a broken invariant: a bug in Tidegate

    (* a retry may help; only the engine retries)
"""

from __future__ import annotations

from threading import Event
from typing import Any, ClassVar


class TidegateError(Exception):
    """Base of all errors: a code, what was found, what is allowed, and the command that helps.

    Args:
        message: one sentence in the user's words; never contains a secret or a value of a row.
        hint: what to do; names a command if one helps. Defaults to the class's own hint.
        context: keyword facts for logs and JSON (column, stream, file, line …).
    """

    code: ClassVar[str] = "error"
    stage: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = "Run again with --log-level debug to see the details."

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.context = context
        self.add_note(f"hint: {self.hint}")

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.context)

    def to_dict(self) -> dict[str, str]:
        """The `error` object of every JSON document."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


def error_of(code: str, message: str, hint: str) -> TidegateError:
    """The error described by a JSON document."""
    kinds: list[type[TidegateError]] = [TidegateError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    kind = next((kind for kind in kinds if kind.code == code), TidegateError)
    return kind(message, hint=hint)


def _rebuild(cls: type[TidegateError], message: str, hint: str, context: dict[str, Any]) -> TidegateError:
    return cls(message, hint=hint, **context)


class ConfigError(TidegateError):
    """The project file or the command line is wrong. Exit code 2."""

    code = "config"
    exit_code = 2
    default_hint = "Correct tidegate.yaml, then run `tidegate check`."


class UnknownPlugin(ConfigError):
    """A kind that no plugin provides; the message lists the known kinds, closest first."""

    code = "unknown_plugin"


class Incompatible(ConfigError):
    """Source, strategy, writer and format that cannot work together."""

    code = "incompatible"


class EnvironmentMissing(ConfigError):
    """Java, jars or a package that the command needs are missing or too old."""

    code = "environment"
    default_hint = "Run `tidegate doctor`."


class SourceError(TidegateError):
    """The database or the files that rows come from refused something."""

    code = "source"
    stage = "detect"
    default_hint = "Run `tidegate doctor` to test the connection."


class SourceUnavailable(SourceError):
    """The source cannot be reached, or the connection was lost."""

    code = "source_unavailable"
    retryable = True


class SourceRefused(SourceUnavailable):
    """A wrong login, or a database that does not exist. Never retried: that would not help, and could lock accounts."""

    code = "source_refused"
    retryable = False
    default_hint = "Correct the URL under `connections:`, then run `tidegate doctor`."


class SourceMoved(SourceError):
    """The source changed while it was being read, and has no snapshots."""

    code = "source_moved"
    retryable = True
    default_hint = "Run again while fewer writes happen, or read with one slice (`source: {slices: 1}`)."


class FileUnreadable(SourceError):
    """A file is truncated, damaged, not of its format, or has a row that does not fit. Nothing was committed."""

    code = "file_unreadable"
    default_hint = "Restore the complete file or move it away, then run again."


class ColumnMissing(SourceError):
    """A table or column named in the project does not exist in the source."""

    code = "column_missing"
    exit_code = 2
    default_hint = "Correct the name in tidegate.yaml, then run `tidegate check --source`, which asks the source."


class HistoryGone(SourceError):
    """The source no longer continues what was loaded (restored, failed over, recreated). Exit code 4."""

    code = "history_gone"
    exit_code = 4
    default_hint = "Run a full refresh: `tidegate run STREAM --full-refresh --yes`."


class EdgeUnknown(SourceError):
    """It is unknown which rows are still being written, so no bound is safe. Exit code 4, nothing read."""

    code = "edge_unknown"
    exit_code = 4
    default_hint = "Load with `strategy: {kind: full}`, or see docs/strategies/watermark.md."


class PlanError(TidegateError):
    """The load must not start."""

    code = "plan"
    stage = "plan"
    exit_code = 4


class SchemaRefused(PlanError):
    """The stream's contract forbids a change of the source's columns. Exit code 4, nothing committed."""

    code = "schema_refused"
    default_hint = "Allow it under `contract:` in tidegate.yaml, or change the source back."


class ColumnsUnknown(PlanError):
    """The source has no file or event yet that would show its columns. Exit code 4, nothing was created."""

    code = "columns_unknown"
    default_hint = "Wait for the first one, or declare them: `source: {columns: …}`."


class DeleteFuse(PlanError):
    """More rows were deleted at the source than `max_fraction` allows, or all. Exit code 4, nothing deleted."""

    code = "delete_fuse"
    default_hint = (
        "Check the source; if these rows were really deleted, allow it once: `tidegate run STREAM --allow-deletes`."
    )


class CheckFailed(TidegateError):
    """Rows that must not be published. Exit code 4, nothing committed."""

    code = "check_failed"
    stage = "check"
    exit_code = 4


class DuplicateKeys(CheckFailed):
    """Several rows with one key, and no rule to choose between them. Nothing committed."""

    code = "duplicate_keys"
    default_hint = (
        "Choose a `key:` that identifies one row; `tidegate check --source` counts rows and keys. If a key has several "
        "versions, name the columns that order them: `write: {kind: merge, order_by: [column]}`."
    )


class WriteError(TidegateError):
    """The lake refused a write; nothing was published."""

    code = "write"
    stage = "write"
    default_hint = "Run `tidegate doctor` to test catalog and warehouse."


class CommitConflict(WriteError):
    """Another writer committed in the meantime; the load was not published."""

    code = "commit_conflict"
    retryable = True
    default_hint = "Run again."


class CommitUnknown(WriteError):
    """The reply to a commit was lost; the next run looks for the commit before it repeats it."""

    code = "commit_unknown"
    retryable = True
    default_hint = "Run again: the table itself shows whether the load was committed."


class SparkLost(WriteError):
    """Spark's process ended in the middle of the work; the next attempt starts another one."""

    code = "spark_lost"
    retryable = True
    default_hint = (
        "Run again. Was it killed for using too much memory? Change `spark: {conf: {spark.driver.memory: 4g}}` first."
    )


class OutOfMemory(SparkLost):
    """Spark's memory did not suffice; the next attempt reads in smaller parts."""

    code = "out_of_memory"
    default_hint = "Give Spark more memory: `spark: {conf: {spark.driver.memory: 8g}}`; then run again."


class TableDamaged(WriteError):
    """A file of the table is missing, cut or overwritten. Exit code 4, nothing changed."""

    code = "table_damaged"
    exit_code = 4
    default_hint = (
        "Restore the file, then run again. Without a copy of it load every row again: `tidegate run STREAM "
        "--full-refresh --yes`; or go back to a version from before it, `tidegate history STREAM --versions`, then "
        "`tidegate rollback STREAM --to VERSION --yes`."
    )


class VersionGone(WriteError):
    """The requested version of the table is no longer kept or complete. Exit code 4, nothing changed."""

    code = "version_gone"
    exit_code = 4
    default_hint = "`tidegate history STREAM --versions` lists the versions that can be read."


class RowsMoved(WriteError):
    """A merge moved rows out of partitions that the load did not compare; it is repeated without a ledger."""

    code = "rows_moved"


class VerifyFailed(TidegateError):
    """Table and source differ after the write. Exit code 3; nothing was published, but on Delta it is visible."""

    code = "verify_failed"
    stage = "verify"
    exit_code = 3
    default_hint = "Run again; if the error persists, report it with the plan that `tidegate history STREAM` shows."


class HookFailed(TidegateError):
    """A hook of `after_publish:` did not succeed. A load never fails because of it."""

    code = "hook_failed"
    default_hint = "The next run tries it again; `tidegate status` shows hooks that fail."


class RegistryError(TidegateError):
    """The registry of positions, plans and runs refused something."""

    code = "registry"
    stage = "advance"
    default_hint = "Run `tidegate doctor`; `tidegate state repair` rebuilds the registry from the tables."


class RegistryUnavailable(RegistryError):
    """The registry cannot be reached or read."""

    code = "registry_unavailable"
    retryable = True


class PositionMoved(RegistryError):
    """The position is not the one that this load started from. Exit code 4."""

    code = "position_moved"
    exit_code = 4
    default_hint = (
        "See `tidegate state show STREAM`; `tidegate state repair STREAM` resets the registry to the table's position."
    )


class PositionMissing(RegistryError):
    """The table has rows but no position of this stream. Exit code 4; nothing was changed."""

    code = "position_missing"
    exit_code = 4
    default_hint = "Take the table over with `tidegate state adopt STREAM`, or use another target."


class LeaseHeld(RegistryError):
    """Another runner is working on the stream. Exit code 5."""

    code = "lease_held"
    exit_code = 5
    default_hint = "Wait for it to finish; `tidegate status` shows it."


class LeaseLost(RegistryError):
    """Another runner took over the stream while this one was working. Nothing was published after that."""

    code = "lease_lost"
    exit_code = 5
    default_hint = "Run again."


class InternalError(TidegateError):
    """A broken invariant: a bug in Tidegate."""

    code = "internal"
    default_hint = "Please report this, with the output of --log-level debug."


INTERRUPTED = 130
"""The exit code of what Ctrl-C or SIGTERM has ended."""


stopping = Event()
"""Set once this process was asked to end. SQLite drops what is raised in a function that it calls, and says that the
function failed: an error after that is no fault of the data."""


def interrupted(error: BaseException | None) -> bool:
    """Whether an error occurred only because of an interruption."""
    return (error is not None and stopping.is_set()) or caused_by_interruption(error)


def caused_by_interruption(error: BaseException | None) -> bool:
    """Whether an error occurred only while an interruption was being handled."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # a cause may lead back to its own error
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
