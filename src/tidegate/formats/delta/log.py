"""Reads a Delta table's log without Spark: its commits, and the table state at a version.

Anything damaged or unknown is an error, never a guess.

Source: Delta transaction log protocol, "Delta Table Specification" and "Action Reconciliation".
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import WriteError
from tidegate.storage import Store

FOLDER = "_delta_log"
CHECKPOINT_COLUMNS = (
    "metaData",
    "protocol",
    "txn",
    "add.path",
    "add.size",
    "add.partitionValues",
    "add.stats",
    "sidecar",
)
DELETION_VECTOR = tuple(
    f"add.deletionVector.{name}" for name in ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
)
# Where these are in force, commits lie elsewhere than in the log's folder.
ELSEWHERE = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<uuid>[0-9a-f-]{36}))?"
    r"\.(?P<kind>parquet|json)"
)

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version's actions, as they stand in the log."""

    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> Mapping[str, Any]:
        """What the writer tells of the commit: operation, parameters, metrics, `userMetadata`."""
        return next(self.of("commitInfo"), {})

    def of(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """The actions of a kind."""
        return (action[kind] for action in self.actions if action.get(kind) is not None)

    @property
    def changes_rows(self) -> bool:
        """Whether rows came or went; compaction and changes of the metadata move none."""
        return any(each.get("dataChange", True) for kind in ("add", "remove") for each in self.of(kind))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table as one version shows it.

    Args:
        transactions: the greatest number of each application.
        files: the live `add` actions.
    """

    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    transactions: Mapping[str, int]
    files: tuple[Mapping[str, Any], ...]

    @property
    def rows(self) -> int | None:
        """Live rows; None where a file does not say how many it holds."""
        counted = [rows_of(file) for file in self.files]
        return None if None in counted else sum(number or 0 for number in counted)


def no_table(where: str) -> WriteError:
    """The error of a folder in which something lies that is no Delta table."""
    return WriteError(
        f"{where} holds files but no Delta table",
        hint="Use another `target:` or `warehouse:`, or move the files away; then run again.",
    )


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one table, as it was listed."""

    store: Store
    names: frozenset[str]

    @classmethod
    def open(cls, store: Store) -> Log | None:
        """The log; None where there is neither a table nor anything else.

        Raises:
            WriteError: there is something that is no Delta table.
        """
        names = store.names(FOLDER)
        if names is not None and any(_COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in names):
            return cls(store, frozenset(names))
        # Spark and others leave hidden files behind; what they mean nobody but them knows.
        if any(not name.startswith((".", "_")) for name in store.names("") or ()):
            raise no_table(store.where)
        return None

    @property
    def version(self) -> int:
        """The newest version."""
        return max(int(name[:20]) for name in self.names if _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name))

    def commit(self, version: int) -> Commit | None:
        """The commit that made the version; None if the log does not keep it any more."""
        name = f"{version:020}.json"
        if name not in self.names:
            return None
        return Commit(version, tuple(_lines(self.store.read(f"{FOLDER}/{name}"), name)))

    def digest(self, version: int) -> str | None:
        """Sixteen hex digits of the commit's text; None if the log does not keep it any more."""
        name = f"{version:020}.json"
        if name not in self.names:
            return None
        return hashlib.sha256(self.store.read(f"{FOLDER}/{name}")).hexdigest()[:16]

    def same_files(self, version: int) -> Sequence[int]:
        """The older versions that consist of the same files, oldest first, among those that it still tells."""
        wanted = {_identity(file) for file in self.snapshot(version).files}
        older = (each for each in self.snapshots() if each.version < version)
        return [each.version for each in older if {_identity(file) for file in each.files} == wanted]

    def commits(self, *, after: int, upto: int | None = None) -> Iterator[Commit]:
        """The commits behind a version, oldest first.

        Raises:
            WriteError: one of them is not kept any more.
        """
        for version in range(after + 1, (self.version if upto is None else upto) + 1):
            commit = self.commit(version)
            if commit is None:
                raise WriteError(f"the Delta log no longer holds version {version}")
            yield commit

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The table as of a version, the newest by default.

        Raises:
            WriteError: the log has a gap, is damaged, or commits of the table lie elsewhere.
        """
        wanted = self.version if version is None else version
        replay = self._checksum(wanted) or self._replayed(wanted)
        return replay.snapshot(wanted)

    def snapshots(self) -> Iterator[Snapshot]:
        """The table as of every version that the log still tells, oldest first, each replayed once."""
        kept = sorted(int(name[:20]) for name in self.names if _COMMIT.fullmatch(name))
        replay = _Replay()
        started = False
        for version in kept:
            if not started:  # commits before the first checkpoint that is kept tell of no whole table
                replay = _Replay()
                started = version == 0 or self._checkpoint(version, replay) >= version - 1
            commit = self.commit(version) if started else None
            if commit is not None:
                replay.take(commit.actions)
                yield replay.snapshot(version)

    def _replayed(self, wanted: int) -> _Replay:
        replay = _Replay()
        start = self._checkpoint(wanted, replay)
        for commit in self.commits(after=start, upto=wanted):
            replay.take(commit.actions)
        return replay

    def _checksum(self, version: int) -> _Replay | None:
        """What the version's checksum file tells, if it tells all: reading it spares the Parquet reader's import."""
        name = f"{version:020}.crc"
        if name not in self.names:
            return None
        try:
            content = json.loads(self.store.read(f"{FOLDER}/{name}"))
            if len(content["allFiles"]) != content["numFiles"]:
                return None
            replay = _Replay()
            replay.take([{"metaData": content["metadata"], "protocol": content["protocol"]}])
            replay.take({"txn": each} for each in content["setTransactions"])
            replay.take({"add": each} for each in content["allFiles"])
        except (KeyError, TypeError, ValueError):
            return None  # it is optional, and so is each of its parts: the log itself tells all
        return replay

    def _checkpoint(self, wanted: int, replay: _Replay) -> int:
        """Takes the newest whole checkpoint up to that version; its version, -1 where there is none."""
        found: dict[int, list[re.Match[str]]] = {}
        for name in self.names:
            match = _CHECKPOINT.fullmatch(name)
            if match and int(match["version"]) <= wanted:
                found.setdefault(int(match["version"]), []).append(match)
        for version in sorted(found, reverse=True):
            files = _whole(found[version])
            for file in files:
                replay.take(self._rows(f"{FOLDER}/{file}"))
            if files:
                for sidecar in tuple(replay.sidecars):
                    replay.take(self._rows(f"{FOLDER}/_sidecars/{sidecar}"))
                return version
        return -1

    def _rows(self, path: str) -> Iterable[Action]:
        data = self.store.read(path)
        if path.endswith(".json"):
            return _lines(data, path)
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second

        try:
            file = parquet.ParquetFile(io.BytesIO(data))
            known = set(file.schema_arrow.names)
            columns = [name for name in (*CHECKPOINT_COLUMNS, *DELETION_VECTOR) if name.split(".")[0] in known]
            rows: list[Action] = file.read(columns=columns).to_pylist()
        except ArrowException as error:
            raise _damaged(path) from error
        return rows


@dataclass(slots=True)
class _Replay:
    """Actions reconciled in order: the last of each kind, application and file counts."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    files: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    sidecars: list[str] = field(default_factory=list)

    def take(self, actions: Iterable[Action]) -> None:
        """The actions, each under the name of its kind."""
        for action in actions:
            for kind, value in action.items():
                if value is not None:
                    self._take(kind, value)

    def _take(self, kind: str, value: Mapping[str, Any]) -> None:
        match kind:
            case "metaData":
                self.metadata = {**value, "configuration": dict(value.get("configuration") or {})}
            case "protocol":
                self.protocol = value
            case "txn":
                self.transactions[value["appId"]] = value["version"]
            case "add":
                self.files[_identity(value)] = {**value, "partitionValues": dict(value.get("partitionValues") or {})}
            case "remove":
                self.files.pop(_identity(value), None)
            case "sidecar":
                self.sidecars.append(value["path"])

    def snapshot(self, version: int) -> Snapshot:
        """The table that the actions make."""
        if not self.metadata or not self.protocol:
            raise WriteError(
                "the Delta log of the table is incomplete: it has no metadata of the table",
                hint="Restore the files of `_delta_log`, or load the table again elsewhere.",
            )
        features = {*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ())}
        if ELSEWHERE & features:
            raise WriteError(
                f"the commits of the Delta table are kept by a catalog ({', '.join(sorted(ELSEWHERE & features))})",
                hint="Use another `target:`: Tidegate reads only logs that are stored with their table.",
            )
        return Snapshot(version, self.metadata, self.protocol, self.transactions, tuple(self.files.values()))


def rows_of(file: Mapping[str, Any]) -> int | None:
    """Live rows of a file; None where it does not say how many it holds."""
    stats = statistics(file)
    if "numRecords" not in stats:
        return None
    vector = file.get("deletionVector") or {}
    return int(stats["numRecords"]) - int(vector.get("cardinality") or 0)


def statistics(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an `add` action tells of the file's rows; nothing where it does not."""
    found: Mapping[str, Any] = json.loads(file.get("stats") or "{}")
    return found


def _identity(file: Mapping[str, Any]) -> tuple[str, str]:
    """A file is another one with other rows deleted from it."""
    vector = file.get("deletionVector") or {}
    if not vector.get("pathOrInlineDv"):
        return file["path"], ""
    return file["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _whole(files: list[re.Match[str]]) -> list[str]:
    """The names that make one checkpoint of a version: a single file, or all of its parts."""
    single = [match.string for match in files if match["part"] is None]
    if single:
        return single[:1]
    parts = {int(match["part"]): match.string for match in files}
    total = int(files[0]["parts"])
    return [parts[number] for number in sorted(parts)] if len(parts) == total else []


def _lines(data: bytes, name: str) -> Iterator[Action]:
    try:
        for line in data.split(b"\n"):  # not splitlines: JSON may hold what Unicode counts among line ends
            if line.strip():
                yield json.loads(line)
    except ValueError as error:
        raise _damaged(name) from error


def _damaged(name: str) -> WriteError:
    return WriteError(
        f"{name} of the Delta log is damaged",
        hint="Restore the file; no engine can read the table without it.",
    )
