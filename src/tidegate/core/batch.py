"""Describes a batch of rows between reading and writing: how one row per key is chosen, and facts about the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.core.plan import Prune
from tidegate.core.slices import Files, Keys, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The rule that keeps one row a key: greatest `order` first, column by column, NULL last.

    Args:
        key: the key columns.
        order: the cursor columns, then the configured tie rule; remaining ties are an error.
        cursor: columns whose first value that is not NULL is compared before `order`; empty for none.
        touched: restricts the rule to keys with a row in one of these slices; empty for every key.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    cursor: tuple[str, ...] = ()
    touched: tuple[Slice, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether anything says which of two rows is later."""
        return bool(self.order or self.cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The events that earlier loads applied, as far as a load needs to know them.

    Args:
        records: maps a frame of key columns (None for every key) to one row per key, deleted keys included:
            `APPLIED`, `WAS_DELETED`, `KNOWN`; None if no key has a record.
        newest: the greatest order that was applied to any key. An event with a greater order needs no record. None if
            it is not known.
        floor: an order at or below which no event counts; None for none.
        horizon: the same for keys whose records were dropped.
        open: for some keys, a column has a value that is older than their last order, or not known yet.
        present: returns the rows of the table that the load is planned on; None if it has none.
        events: maps a frame of key columns to all kept events of these keys, several rows per key: the columns,
            `ORDER`, `WAS_DELETED`, `STATED`, `FALLBACK`, `KEY_FLOOR` and `WHOLE`. Only for a writer whose rows depend
            on all events; None if none are kept.
    """

    records: Callable[[DataFrame | None], DataFrame] | None = None
    newest: str | None = None
    open: bool = False
    floor: str | None = None
    horizon: str | None = None
    present: Callable[[], DataFrame] | None = None
    events: Callable[[DataFrame], DataFrame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The result of reducing a load's events to one row per key.

    Args:
        applied: the keys that are written, with `ORDER`, `DELETED` and `KNOWN`. For a writer that needs every event:
            the events to keep, see `Fence.events`.
        emptied: the order of an applied event that empties the table.
        superseded: how many events were superseded by a newer one, or by one that was applied before.
        newest: the greatest order among the events; None for none.
        open: as in `Fence`, for the keys that are written.
    """

    applied: DataFrame
    emptied: str | None = None
    superseded: int = 0
    newest: str | None = None
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the engine knows about the rows that it passes to a writer.

    Args:
        latest: the rule that keeps one row per key (cursor columns; a writer appends its own tie rule); None without
            a key.
        keys_unique: the source guarantees one row per key and no NULL in it, so neither has to be checked.
        cheap: the rows can be read again by one more scan, and will be the same.
        reread: the rows were checked before, so events that cannot be applied are dropped without a finding.
        bounds: of the batch's keys, found in the snapshot that the rows are read from; empty if not known.
        skip_equal: rows may have been loaded before; those that are equal in every column are not written.
        fence: the events that were applied before; None if the rows are no events.
        current: returns the source's present rows of given keys. Set if the rows are changes of a table that may hold
            several rows of a key for a while; None elsewhere.
        present: returns the table's rows. Set if the table may have later rows than the batch; None elsewhere.
    """

    latest: Latest | None
    keys_unique: bool
    skip_equal: bool
    cheap: bool = False
    reread: bool = False
    bounds: tuple[Prune, ...] = ()
    fence: Fence | None = None
    current: Callable[[DataFrame], DataFrame] | None = None
    present: Callable[[], DataFrame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRows:
    """Keys that the files of a load no longer have, and that get the row of a file loaded earlier.

    Args:
        files: the files of the load; the rows come from their `older` files.
        keys, frame: the keys, as texts and as columns.
        latest: the rule that chooses among several rows of a key.
    """

    files: Files
    keys: Keys
    frame: DataFrame
    latest: Latest


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """Rows of a load that were quarantined, read from the quarantine's own commit.

    Args:
        rows: how many.
        frame: the rows that could be parsed, with the load's columns.
        last: the condition, over `frame`, of the last row of each key.
        key: the key columns; empty for none.
        kept: the keys whose rows the table keeps although the load has none, because they exist at the source; None
            for none.
    """

    rows: int
    frame: DataFrame
    last: str
    key: tuple[str, ...] = ()
    kept: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """Keys of the table that no longer exist at the source.

    Args:
        frame: key columns only.
        reach: literal bounds of every key that is written or deleted; empty if they are not known.
    """

    frame: DataFrame
    reach: tuple[Prune, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonScope:
    """What verification compares, if it is not just the rows of the plan's slices.

    Args:
        latest: the complete rule by which superseded rows were dropped; None if no row was.
        moved: the slices for which the source is asked; None for the plan's.
        where: the condition of the table's rows that are compared; None for all of them.
        restored: the rows that came from files loaded earlier; None for none.
    """

    latest: Latest | None = None
    moved: tuple[Slice, ...] | None = None
    where: str | None = None
    restored: RestoredRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """What a writer that keeps history knows about the moments of its rows.

    Args:
        sequence: the columns that date a row.
        moments: the earliest and the latest moment of the rows, as canonical text, if rows state their moment.
        unique: no two rows have the same key.
        touched: the condition of the versions that the load can have changed.
        placed: every row has a moment of its own, deleted rows included.
    """

    sequence: tuple[str, ...] = ()
    moments: tuple[str, str] | None = None
    unique: bool = False
    touched: str | None = None
    placed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The results of the stream's checks.

    Args:
        quarantined: the rows that are not written, because they break a rule; None for none.
        findings: notes for the report, one sentence each.
        warned: how many rows are written although they break a rule that only warns.
        refused: how many events cannot be applied; if there are any, no event was reduced.
        carried: what rows of the quarantine that the load supersedes have in columns that it does not write: their
            keys, `CARRIED` and these columns; None for nothing.
    """

    quarantined: QuarantinedRows | None = None
    findings: tuple[str, ...] = ()
    warned: int = 0
    refused: int = 0
    carried: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Rows that may be written, and what verification needs to find them again.

    Args:
        frame: the rows; one per key if there is a key.
        rows: how many; None if they were not counted.
        keys: their keys, one row each, key columns only, cheap to read again; None if no row has to be found by its
            key, or if `prune` alone names the keys.
        prune: literal bounds of the rows, derived from the rows themselves.
        skip_equal: rows that the table already holds in every column are not written.
        deleted_keys: keys that are deleted in the same commit; None for none.
        skipped: why nothing was written, if the differences are not worth a load.
        held: the rows in Spark's cache; the engine calls its `unpersist()` when they are no longer needed.
        folded: how the events of the batch were reduced to these rows; None if the rows were no events.
    """

    frame: DataFrame
    rows: int | None = None
    keys: DataFrame | None = None
    prune: tuple[Prune, ...] = ()
    skip_equal: bool = False
    deleted_keys: DeletedKeys | None = None
    skipped: str | None = None
    held: DataFrame | None = None
    folded: Folded | None = None
    compared: ComparisonScope = field(default_factory=ComparisonScope)
    dated: Dated = field(default_factory=Dated)
    verdicts: Verdicts = field(default_factory=Verdicts)
