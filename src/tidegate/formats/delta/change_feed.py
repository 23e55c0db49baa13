"""Reads the changes between two versions of a Delta table, from its log and its change data feed.

A range whose log or files were removed is never reported as complete.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.core.change_feed import FeedContent, Span
from tidegate.errors import HistoryGone, WriteError
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.delta.log import Commit, Log, rows_of
from tidegate.formats.delta.table import ancestors, is_restore, physical
from tidegate.spark.dataframe_ops import changelog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED = "delta.enableChangeDataFeed"
DELETES = "_change_type IN ('delete', 'update_preimage')"
OF_THE_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def between(log: Log, after: str, upto: str) -> Span:
    """What the log tells of the versions above one up to another.

    Raises:
        HistoryGone: commits of the range, or files that they name, are not there any more.
    """
    commits = list(_commits(log, after, upto))
    moved = [commit for commit in commits if commit.changes_rows]
    if (reason := _missing_versions(log, after, upto, commits)) is not None:
        return Span(content=FeedContent.UNKNOWN, reason=reason)
    if not moved:
        return Span(content=FeedContent.NOTHING)
    _need_files(log, moved)
    if all(_appends(commit) for commit in moved):
        counted = [rows_of(file) for commit in moved for file in commit.of("add")]
        return Span(
            content=FeedContent.APPENDS, rows=None if None in counted else sum(number or 0 for number in counted)
        )
    return Span(content=FeedContent.CHANGES)


def enabling_statement(log: Log, location: str) -> str | None:
    """The statement that enables the change data feed; None where it is enabled."""
    if (log.snapshot().metadata.get("configuration") or {}).get(FEED, "false").lower() == "true":
        return None
    return f"ALTER TABLE {by_path(location)} SET TBLPROPERTIES ('{FEED}' = 'true')"


def witness(log: Log, version: str) -> dict[str, str]:
    """The version and the digest of its commit, where it is kept: a log put back counts on from the same numbers."""
    digest = log.digest(int(version))
    return {"version": version} if digest is None else {"version": version, "commit": digest}


def restore_reason(log: Log, known: Mapping[str, str], upto: str, *, rolled_back: bool) -> str | None:
    """Why the version `upto` does not follow the one of a witness; None without evidence, see `ChangeFeed`."""
    loaded, now, commit = int(known["version"]), int(upto), known.get("commit")
    if now < loaded:
        return f"the source went back in time: version {loaded} was loaded, but its newest is {now}"
    if commit is not None and log.digest(loaded) not in (commit, None):
        return f"version {loaded} of the source is not the one that was loaded: an older copy was put back and changed"
    return _shows_older(log, loaded, now) if rolled_back else None


def _shows_older(log: Log, loaded: int, now: int) -> str | None:
    restored = None
    for commit in ancestors(log, now):
        if commit is not None and commit.version > loaded:
            restored = commit.version if is_restore(commit) else restored
        elif restored is None or (commit is not None and commit.version == loaded):
            break
        else:
            return f"version {restored} of the source (RESTORE) shows an older one than {loaded}, which was loaded"
    return None


def feed(session: SparkSession, log: Log, location: str, after: str, upto: str) -> DataFrame:
    """Every row that came or went, see `core.ports.format.ChangeFeed`."""
    moved = [commit.version for commit in _commits(log, after, upto) if commit.changes_rows]
    reader = session.read.format("delta").option("readChangeFeed", "true")
    # From the first version that moved rows on: those before it need not have had a feed.
    rows = reader.option("startingVersion", str(moved[0])).option("endingVersion", str(moved[-1])).load(location)
    return changelog(rows, deleted=DELETES, commit="_commit_version", drop=OF_THE_FEED)


def _commits(log: Log, after: str, upto: str) -> Iterator[Commit]:
    if int(upto) < int(after):
        raise HistoryGone(
            f"the source went back in time: version {after} was loaded, but its newest is {upto}", restored=True
        )
    for version in range(int(after) + 1, int(upto) + 1):
        commit = log.commit(version)
        if commit is None:
            raise HistoryGone(f"version {version} of the source, which was not loaded yet, is no longer in its log")
        yield commit


def _missing_versions(log: Log, after: str, upto: str, commits: Sequence[Commit]) -> str | None:
    """Why the feed does not tell the whole range; None where it does."""
    now, moved = log.snapshot(int(upto)).metadata, any(commit.changes_rows for commit in commits)
    try:
        changed = any(True for commit in commits for _ in commit.of("metaData"))
        before = log.snapshot(int(after)).metadata if changed else now
    except WriteError:
        unknown = "it is no longer known whether its change data feed was enabled for all of these versions"
        return unknown if moved else None
    kept, known = _columns(now), _columns(before)
    # A column that took the name of a dropped one has none of its values, although no row moved.
    if any(name in kept and physical != kept[name][0] for name, (physical, _) in known.items()):
        return f"a column has the name that another one had in version {after}"
    if moved and not known.items() <= kept.items():
        return f"columns were renamed, dropped or retyped after version {after}"
    for commit in commits:
        before = next(commit.of("metaData"), before)
        if commit.changes_rows and (before.get("configuration") or {}).get(FEED, "false").lower() != "true":
            return f"the change data feed ({FEED}) was not enabled for version {commit.version}"
        if commit.changes_rows and not _columns(before).items() <= kept.items():
            return f"columns were renamed, dropped or retyped after version {commit.version}"
    return None


def _columns(metadata: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """By name what each column is called in files, and its type."""
    fields = json.loads(metadata["schemaString"])["fields"]
    return {field["name"]: (physical(field), json.dumps(field["type"], sort_keys=True)) for field in fields}


def _appends(commit: Commit) -> bool:
    removed = any(each.get("dataChange", True) for each in commit.of("remove"))
    return not removed and not any(commit.of("cdc"))


def _need_files(log: Log, commits: Iterable[Commit]) -> None:
    """Raises HistoryGone where VACUUM took a file that the feed of these commits is read from."""
    folders: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for commit in commits:
        changed = list(commit.of("cdc")) or [
            each for kind in ("add", "remove") for each in commit.of(kind) if each.get("dataChange", True)
        ]
        for each in changed:
            path = unquote(each["path"])
            if "://" not in path and not path.startswith(("/", "file:")):
                folder, _, name = path.rpartition("/")
                folders[folder][name] = commit.version
    for folder, names in folders.items():
        there = set(log.store.names(folder) or ())
        missing = [version for name, version in names.items() if name not in there]
        if missing:
            raise HistoryGone(
                f"files of version {min(missing)} of the source, which was not loaded yet, no longer exist (VACUUM)"
            )
