"""The strategy `files`: compares the files in a folder with those that were loaded.

Needs only a listing, without Spark. A file never counts as unchanged because of its modification time, and is never
read twice into a table that would keep both copies.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from tidegate.core.changes import Action, ChangeSet, Observed, Part
from tidegate.core.effects import Effect, Insert, Upsert
from tidegate.core.ledger import Ledger
from tidegate.core.manifest import File, Listing, Manifest
from tidegate.core.ports.capabilities import ListedFiles
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import COLUMNS, FETCHED, fetched_of
from tidegate.core.slices import Files as Chosen
from tidegate.errors import ConfigError, HistoryGone, Incompatible, PlanError

CONTENT = re.compile("blake2b:.+|etag:[0-9a-f]{32}(-[0-9]+)?")
"""Tags that are made of the content alone; another etag may be of a path or a time."""
CARRIER = "carrier"
REBUILT = "rebuilt"
"""Keys of a position's state beside `COLUMNS`: the column that carries each row's file since the first
load; whether files may be in the table that the manifest does not know of."""
NAMED = 5


class OnChange(StrEnum):
    """What to do when the content of a loaded file has changed."""

    RELOAD = "reload"
    STOP = "stop"


class OnDelete(StrEnum):
    """What to do when a loaded file is missing."""

    KEEP = "keep"
    REMOVE = "remove"
    STOP = "stop"


class OnMove(StrEnum):
    """What to do with a new file that has the content of a loaded one which is gone."""

    LOAD = "load"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Strategy):
    """Reads files that are new or have changed.

    Args:
        on_change: what happens when the content of a loaded file changed: `reload` the file, or `stop`.
        on_delete: what happens when a loaded file is gone: `keep` its rows, `remove` them, or `stop`.
        on_move: what happens when a loaded file has another path: `load` it as a new one, or `keep` its rows.
    """

    kind: ClassVar[str] = "files"
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Insert, Upsert})
    reads: ClassVar[frozenset[type]] = frozenset({Chosen})
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"keep": {}, "remove": {"on_delete": "remove"}}

    on_change: OnChange = OnChange.RELOAD
    on_delete: OnDelete = OnDelete.KEEP
    on_move: OnMove = OnMove.LOAD

    @property
    def rereads(self) -> bool:
        """A file is read once; `ChangeSet.again` reports a changed file, which the writer may refuse."""
        return False

    @property
    def removes_files(self) -> bool:
        """Whether the rows of a missing file are deleted."""
        return self.on_delete == OnDelete.REMOVE

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The files in the table are unknown."""
        if value is not None:
            raise ConfigError(
                f"strategy files has no cursor, so it cannot continue from {value!r}",
                hint="`tidegate state adopt STREAM` marks the existing files as loaded.",
            )
        return {REBUILT: True}

    def adopted(self, probe: Probe) -> tuple[Mapping[str, Any], Manifest]:
        """The state of a table that holds every file that is there now, as one load's, and what to remember of them."""
        files = _listed(probe)
        if files.progress is not None:
            raise ConfigError(
                "a table that an API fills cannot be adopted: nothing shows which of its answers the table holds",
                hint="Reload it: `tidegate resync STREAM --replace --yes`.",
            )
        listed = files.listing(None).ready
        taken = Manifest.of(replace(file, loaded=1) for file in listed.files.values())
        files.choose(taken.files.values(), {})
        return _state(taken, probe, files.carrier), taken

    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """The files that are new, changed or missing; None if there are none.

        Without `kept` for a table that was loaded every file counts as changed, unless the listing is still the one
        that the position vouches for.

        Raises:
            HistoryGone, PlanError: a file changed or is gone, and the options say stop.
        """
        files, fetched = _listed(probe), fetched_of(since.state) if since else {}
        files.fetch(fetched)
        known = Manifest() if since is None else kept.files if kept else files.loaded(fetched)
        listed = files.listing(known)
        renamed = self._renamed(listed, known, files.carrier) if known else {}
        for path, before in renamed.items():
            known = (known or Manifest()).loaded(
                [replace(listed.ready.files[path], loaded=before.loaded)], [before.path]
            )
        parts = list(self._compared(listed, known, since))
        deleted = [] if known is None else self._removed_files(listed, known)
        parts += [Part(slice=Chosen(paths=(file.path,)), action=Action.DELETE, file=file) for file in deleted]
        moved = [part for part in parts if part.action is not Action.SKIP]
        if not moved and not renamed:
            # What was hashed again is remembered.
            return ChangeSet(slices=(), effect=Insert(), parts=tuple(parts)) if parts else None
        changes = self._changes(probe, since, parts, moved, known)
        return _with_renamed(changes, listed, renamed) if renamed else changes

    def _changes(
        self, probe: Probe, since: Position | None, parts: list[Part], moved: list[Part], known: Manifest | None
    ) -> ChangeSet:
        files = _listed(probe)
        state = since.state if since else {}
        number = 1 + max(
            [since.sequence if since else 0, *(file.loaded for file in (known or Manifest()).files.values())]
        )
        parts = [_numbered(part, number) for part in parts]
        moved = [part for part in parts if part.action is not Action.SKIP]
        read = [part.file for part in moved if part.file and part.action is not Action.DELETE]
        deleted = [part.file.path for part in moved if part.file and part.action is Action.DELETE]
        carrier = files.carrier if since is None or state.get(CARRIER) == files.carrier else None
        if deleted and carrier is None:
            raise PlanError(
                f"{_files(deleted)} missing, but on_delete: remove cannot tell which rows came from them",
                hint="Record the file name in each row from the first load on (`source: {file_name: source_file}`), or "
                "choose on_delete: keep.",
            )
        files.choose(read, dict(state.get(COLUMNS, ())))
        manifest = (known or Manifest()).loaded(read, deleted)
        rebuilt = {REBUILT: True} if since and (known is None or state.get(REBUILT)) else {}
        again = _again(moved, forgotten=known is None, rebuilt=bool(rebuilt))
        paths = tuple(sorted(part.file.path for part in moved if part.file))
        loses = any(part.action is not Action.LOAD for part in moved)
        older = _older(manifest, files, set(paths)) if loses and carrier else ()
        return ChangeSet(
            slices=(Chosen(paths=paths, carrier=carrier, older=older),),
            effect=Upsert(repeats=again) if again else Insert(),
            state={**_state(manifest, probe, carrier), **rebuilt},
            bytes=sum(file.size for file in read),
            reason=_summary(moved),
            parts=tuple(parts),
            observed=Observed(skipped=len(manifest.files) - len(read)),
            notes=_notes(moved, carrier),
        )

    def _compared(self, listed: Listing, known: Manifest | None, since: Position | None) -> Iterator[Part]:
        """Every file that is to be read, and of the others those whose stamp is new."""
        as_vouched = known is None and since is not None and listed.ready.vouched(since.state)
        for path, file in listed.ready.files.items():
            before = known.files.get(path) if known is not None else None
            if before is not None and file.same(before):
                file = replace(file, loaded=before.loaded)  # noqa: PLW2901 - the same file, and the load that read it
            if as_vouched or file.same(before):
                action = Action.SKIP
            elif known is None:
                action = Action.RELOAD
            elif before is None:
                action = Action.LOAD
            else:
                action = self._changed(path)
            if action is not Action.SKIP or file != before:
                yield Part(slice=Chosen(paths=(path,)), action=action, quick=file.tag, bytes=file.size, file=file)

    def _renamed(self, listed: Listing, known: Manifest, carrier: str | None) -> dict[str, File]:
        """Of new files that have the content of a loaded one which is gone: that one, by the new path.

        A folder's `column=value` is a part of the rows, so it has to be the same.
        """
        if self.on_move != OnMove.KEEP:
            return {}
        if carrier is not None:
            raise Incompatible(
                f"on_move: keep contradicts `file_name: {carrier}`: rows would carry a path that is gone",
                hint="Choose on_move: load, or read the files without `file_name:`.",
            )
        there = {*listed.ready.files, *listed.waiting}
        missing: defaultdict[tuple[object, ...], list[File]] = defaultdict(list)
        for path, file in sorted(known.files.items(), reverse=True):
            if path not in there and CONTENT.fullmatch(file.tag):
                missing[_content(file)].append(file)
        new = (file for path, file in listed.ready.files.items() if path not in known.files)
        return {file.path: found.pop() for file in new if (found := missing.get(_content(file)))}

    def _changed(self, path: str) -> Action:
        if self.on_change == OnChange.STOP:
            raise HistoryGone(
                f"{path} was loaded and its content has changed, and on_change is stop",
                hint="Restore the file, or load it with `tidegate run STREAM --set on_change=reload`.",
            )
        return Action.RELOAD

    def _removed_files(self, listed: Listing, known: Manifest) -> list[File]:
        there = {*listed.ready.files, *listed.waiting}
        deleted = [file for path, file in known.files.items() if path not in there]
        if deleted and self.on_delete == OnDelete.STOP:
            raise HistoryGone(
                f"{_files([file.path for file in deleted])} missing, and on_delete is stop",
                hint="Restore them, or continue with `tidegate run STREAM --set on_delete=keep`.",
            )
        return deleted if self.on_delete == OnDelete.REMOVE else []


def _content(file: File) -> tuple[object, ...]:
    """What two paths of one file have in common."""
    folders = tuple(part for part in file.path.split("/")[:-1] if "=" in part[1:])
    return (file.size, file.tag, folders)


def _with_renamed(changes: ChangeSet, listed: Listing, renamed: Mapping[str, File]) -> ChangeSet:
    """The changes with the new paths of files whose rows are kept."""
    parts = [part for part in changes.parts if part.file is None or part.file.path not in renamed]
    for path, before in renamed.items():
        file = replace(listed.ready.files[path], loaded=before.loaded)
        parts.append(Part(slice=Chosen(paths=(path,)), action=Action.SKIP, quick=file.tag, bytes=file.size, file=file))
        parts.append(Part(slice=Chosen(paths=(before.path,)), action=Action.DELETE, file=before))
    moved = f"{len(renamed)} moved"
    reason = (
        f"{changes.reason}, {moved}"
        if any(part.paths for part in changes.slices if isinstance(part, Chosen))
        else (f"files: {moved}")
    )
    return replace(changes, parts=tuple(parts), reason=reason)


def _listed(probe: Probe) -> ListedFiles:
    files = probe.files
    if files is None:
        raise Incompatible("strategy files needs a source of files: `source: {path: …}`")
    return files


def _state(manifest: Manifest, probe: Probe, carrier: str | None) -> dict[str, Any]:
    """What the position says of a table that holds these files."""
    found = probe.schema()
    columns = [[column.name, column.type.spark] for column in found]  # in the order of a file without a header
    columns += [[name, ""] for name in found.excluded]
    progress = _listed(probe).progress
    fetched = {} if progress is None else {FETCHED: dict(progress)}
    return {**manifest.voucher(), COLUMNS: columns, **fetched, **({CARRIER: carrier} if carrier else {})}


def _numbered(part: Part, number: int) -> Part:
    """A part to read, with the number of this load."""
    if part.file is None or part.action in (Action.SKIP, Action.DELETE):
        return part
    return replace(part, file=replace(part.file, loaded=number))


def _older(manifest: Manifest, files: ListedFiles, moved: set[str]) -> tuple[tuple[int, str], ...]:
    """The files that were loaded before and are unchanged, in the order of their loads."""
    ready = files.listing(None).ready.files
    there = (file for path, file in manifest.files.items() if path not in moved and file.same(ready.get(path)))
    return tuple(sorted((file.loaded, file.path) for file in there))


def _again(moved: list[Part], *, forgotten: bool, rebuilt: bool) -> str:
    """Why rows that are read may already be in the table; empty if none can."""
    if forgotten:
        return "there is no record of which of the files are in the table"
    if changed := [part.file.path for part in moved if part.file and part.action is not Action.LOAD]:
        return f"{_files(changed)} not the same as when loaded"
    return "restored files may be in the table, because the registry was lost and rebuilt" if rebuilt else ""


def _summary(moved: list[Part]) -> str:
    counts = {action: sum(part.action is action for part in moved) for action in Action}
    words = {Action.LOAD: "new", Action.RELOAD: "to be read again", Action.DELETE: "missing"}
    return "files: " + ", ".join(f"{count} {words[action]}" for action, count in counts.items() if count)


def _notes(moved: list[Part], carrier: str | None) -> tuple[str, ...]:
    changed = [part.file.path for part in moved if part.file and part.action is Action.RELOAD]
    if not changed or carrier:
        return ()
    return (f"rows removed from {_names(changed)} stay in the table, because rows do not record their file's name",)


def _files(paths: list[str]) -> str:
    return f"{_names(paths)} {'is' if len(paths) == 1 else 'are'}"


def _names(paths: list[str]) -> str:
    rest = len(paths) - NAMED
    return ", ".join(paths[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
