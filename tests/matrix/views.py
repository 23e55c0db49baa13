"""What each strategy sees of a source since its last load, in plain Python, as its page in the documents says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from matrix.model import (
    CREATED,
    CURSOR,
    KEY,
    Appended,
    Apply,
    Effect,
    Insert,
    Memory,
    Merged,
    Mirror,
    Reset,
    Row,
    Source,
    Stop,
    Table,
    Upsert,
    Versioned,
    View,
)


def whole(within: Callable[[Row], bool]) -> View:
    """Every row that the strategy looks at: `full`, `checksum`, `snapshot_diff`, `smart`."""

    def look(memory: Memory, source: Source, table: Table) -> Effect:
        return Mirror(rows=[row for row in source.rows.values() if within(row)])

    return look


def significant(*, least: int) -> View:
    """Every row, once at least so many of them differ from the table."""

    def look(memory: Memory, source: Source, table: Table) -> Effect | None:
        held = {row[KEY]: row for row in table.current()}
        differ = [key for key in held.keys() | source.rows.keys() if held.get(key) != source.rows.get(key)]
        first, memory.loaded = not memory.loaded, True
        if not first and len(differ) < least:
            return None
        return Mirror(rows=list(source.rows.values()))

    return look


def watermark(
    *,
    lookback: timedelta | None,
    lag: timedelta,
    nulls: bool,
    fallback: bool,
    key_diff: bool,
    windowed: bool,
    added_to: bool,
) -> View:
    """Rows whose cursor lies after the greatest one that was loaded, less the lookback.

    Args:
        lag: this much below the greatest cursor that there is, rows wait for a later load.
        added_to: the source may get rows with the cursor that was the greatest, which are read with all that have it.
    """

    def cursor(row: Row) -> object:
        return row[CREATED] if fallback and row[CURSOR] is None else row[CURSOR]

    def look(memory: Memory, source: Source, table: Table) -> Effect:
        rows = list(source.rows.values())
        undated = [row for row in rows if cursor(row) is None]
        if undated and not nulls:
            raise Stop("a cursor is NULL")
        since = memory.through
        at = [row for row in rows if cursor(row) == since]
        more = added_to and lookback is None and memory.at is not None and len(at) > len(memory.at)
        if more and isinstance(table, Appended):
            raise Stop("rows came with the cursor of the position, and some of them are there")
        if since is not None and lookback is not None:
            since -= lookback
        edge = max((cursor(row) for row in rows if cursor(row) is not None), default=None)
        dated = [row for row in rows if cursor(row) is not None and cursor(row) <= edge - lag]
        seen = [row for row in dated if since is None or cursor(row) > since]
        memory.through = max((cursor(row) for row in seen), default=memory.through)
        seen += at if more else []
        if seen or undated != memory.undated:
            memory.undated = undated
            memory.at = [row for row in rows if cursor(row) == memory.through]
        gone: frozenset[int] = frozenset()
        if key_diff:
            assert isinstance(table, Merged)
            window = (key for key, row in table.live.items() if not windowed or since is None or cursor(row) > since)
            gone = frozenset(window) - frozenset(source.rows)
        return Upsert(rows=[*seen, *undated], gone=gone)

    return look


def sequence(*, key_diff: bool) -> View:
    """Rows whose number is greater than the greatest one that was loaded."""

    def look(memory: Memory, source: Source, table: Table) -> Effect:
        seen = [row for key, row in source.rows.items() if memory.through is None or key > memory.through]
        memory.through = max((row[KEY] for row in seen), default=memory.through)
        if key_diff:
            assert isinstance(table, Merged)
            return Upsert(rows=seen, gone=frozenset(table.live) - frozenset(source.rows))
        return Insert(rows=seen)

    return look


def log(memory: Memory, source: Source, table: Table) -> Effect | None:
    """The events that were delivered since the last load: `cdc`."""
    new, memory.events = source.delivered[memory.events :], len(source.delivered)
    return Apply(events=new) if new else None


def slot(memory: Memory, source: Source, table: Table) -> Effect | None:
    """The rows of the table first, then every event: a replication slot."""
    if not memory.loaded:
        memory.loaded, memory.events = True, len(source.delivered)
        return Mirror(rows=list(source.rows.values()))
    return log(memory, source, table)


def tracked(memory: Memory, source: Source, table: Table) -> Effect | None:
    """The rows of the table first, then of each key what became of it last: change tracking."""
    effect = slot(memory, source, table)
    if isinstance(effect, Apply):
        return Apply(events=list({event.key: event for event in effect.events}.values()))
    return effect


def appended(memory: Memory, source: Source, table: Table) -> Effect | None:
    """Rows that came to a versioned table, where nothing else happened to it: `table_changes` into `append`."""
    if any(source.rows.get(key) != row for key, row in memory.rows.items()):
        raise Stop("rows changed or went")
    new = [row for key, row in source.rows.items() if key not in memory.rows]
    memory.rows = dict(source.rows)
    return Insert(rows=new) if new else None


def changed(memory: Memory, source: Source, table: Table) -> Effect | None:
    """Rows that came, changed or went between two versions of a table: `table_changes`."""
    if memory.loaded and memory.rows == source.rows:
        return None
    memory.rows, memory.loaded = dict(source.rows), True
    return Mirror(rows=list(source.rows.values()))


def files(*, removes: bool) -> View:
    """The rows of the files that came since the last load, in the order of their names: `files`.

    Args:
        removes: the rows of a file that is gone go with it, and what an older file says of a key counts again.
    """

    def look(memory: Memory, source: Source, table: Table) -> Effect | None:
        # If it is no longer known which files have been loaded, a merge reads all of them again in one load.
        whole = memory.unsure and not removes and not isinstance(table, Appended)
        before, memory.unsure = [] if whole else memory.files, False
        gone = removes and any(now is None and was is not None for was, now in zip(before, source.files, strict=False))
        held = [one for one in (source.files if gone else source.files[len(before) :]) if one]
        rows = [row for one in held for row in one.values()]
        if isinstance(table, Versioned) and not table.moment and _several(rows):
            raise Stop("nothing says which of two files of one load is later")
        if isinstance(table, Merged) and not gone and len(held) > 1:  # of one load `order_by` says it
            rows.sort(key=lambda row: row[CURSOR])
            newest = {row[KEY]: row[CURSOR] for row in rows}
            if _several([row for row in rows if row[CURSOR] == newest[row[KEY]]]):
                raise Stop("nothing says which of two rows of one moment is later")
        memory.files = list(source.files)
        if gone and isinstance(table, Appended):
            return Reset(rows=rows)
        latest = {row[KEY]: row for row in rows}
        if gone:
            return Mirror(rows=list(latest.values()))
        return Upsert(rows=rows) if rows else None

    return look


def _several(rows: Sequence[Row]) -> bool:
    """Whether two rows of one key differ."""
    first = {row[KEY]: row for row in reversed(rows)}
    return any(row != first[row[KEY]] for row in rows)
