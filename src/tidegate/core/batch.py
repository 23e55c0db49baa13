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
        order: cursor columns, then the stated tie rule; ties that remain are an error.
        cursor: columns of which the first value that is not NULL comes before `order`; empty for none.
        touched: only keys that have a row in any of these slices; empty for every key.
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
    """What is known of the events that were applied before.

    Args:
        records: from a frame of key columns, or None for every key, to one row a key, deleted keys included:
            `APPLIED`, `WAS_DELETED`, `KNOWN`; None where nothing is known of any.
        newest: the greatest order that was applied of any key: for a greater one no record is looked at; None where
            nobody knows it.
        floor: an order at or below which no event counts; None for none.
        horizon: the same for keys of which nothing is kept any more.
        open: of some keys a column is kept whose value is older than their last order, or not known yet.
        present: makes the rows of the table that the load is planned on; None where it has none.
        events: from a frame of key columns to every event that is kept of these keys, several rows a key: the columns,
            `ORDER`, `WAS_DELETED`, `STATED`, `FALLBACK`, `KEY_FLOOR` and `WHOLE`. Only for a
            writer whose rows depend on all of them; None where none are kept.
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
    """What events were made of.

    Args:
        applied: the keys that are written: with `ORDER`, `DELETED` and `KNOWN`. For a writer that needs every event:
            the events to keep, see `Fence.events`.
        emptied: the order of an event that empties the table and is applied.
        superseded: events that a newer one, or one that was applied before, takes the place of.
        newest: the greatest order among them; None for none.
        open: as of `Fence`, of the keys that are written.
    """

    applied: DataFrame
    emptied: str | None = None
    superseded: int = 0
    newest: str | None = None
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the engine knows of the rows it hands to a writer.

    Args:
        latest: the rule that keeps one row a key (cursor columns; a writer appends its own tie rule); None without key.
        keys_unique: the source guarantees one row a key and no NULL in it, so nothing has to be looked for.
        cheap: the rows can be read again at the cost of a scan, and are then the same.
        reread: they were read before, so that events among them that cannot be taken are left out without a word.
        bounds: of the batch's keys, found in the very snapshot that the rows are read from; empty when not known.
        skip_equal: rows may have been loaded before; those that are equal in every column are left alone.
        fence: what events were applied before; None where the rows are no events.
        current: gives the source's rows of given keys as they are now, where the rows are what happened to a table that
            may hold several of a key for a while; None where that cannot be.
        present: the table's rows, where it may have a later one of a key than what is read; None where it cannot.
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
    """Keys that the files of a load do not have any more, and that get the row of a file that was loaded earlier.

    Args:
        files: their `older` ones are read.
        keys, frame: the keys, as texts and as columns.
        latest: which of their rows counts.
    """

    files: Files
    keys: Keys
    frame: DataFrame
    latest: Latest


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """Rows of a load that are kept in its quarantine, as the quarantine's own commit holds them.

    Args:
        rows: how many.
        frame: those with columns, with the load's columns; `last` names the condition of the last ones of their keys.
        key: the key columns; empty for none.
        keeps: the table keeps what it has of their keys, which are not gone.
    """

    rows: int
    frame: DataFrame
    last: str
    key: tuple[str, ...] = ()
    keeps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """The keys of the table that the source does not have any more.

    Args:
        frame: key columns only.
        reach: literal bounds of every key that is written or deleted; empty where they are not known.
    """

    frame: DataFrame
    reach: tuple[Prune, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonScope:
    """What verification compares, where it is not just the rows of the plan's slices.

    Args:
        latest: the whole rule by which superseded rows were dropped; None when none could have been.
        moved: the slices that the source is asked for, where these are not the plan's.
        where: the condition of the table's rows that are compared; None for all that are found.
        restored: of the rows those that files loaded earlier have; None for none.
    """

    latest: Latest | None = None
    moved: tuple[Slice, ...] | None = None
    where: str | None = None
    restored: RestoredRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """What a writer that keeps history knows of its rows.

    Args:
        sequence: the columns that date a row.
        moments: the least and the greatest moment of the rows, as canonical text, where rows say one.
        unique: no two rows have one key.
        touched: the condition of the versions that such a load can have changed.
        placed: every row has a moment of its own, those that went as well.
    """

    sequence: tuple[str, ...] = ()
    moments: tuple[str, str] | None = None
    unique: bool = False
    touched: str | None = None
    placed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What the stream's checks say.

    Args:
        aside: the rows that are not written, because they break a rule; None for none.
        findings: what is to be told, one sentence each.
        warned: rows that are written although they break a rule that only warns.
        refused: events among the rows that cannot be taken, so that nothing was made of any.
    """

    quarantined: QuarantinedRows | None = None
    findings: tuple[str, ...] = ()
    warned: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Rows that may be written, and what verification needs to find them again.

    Args:
        frame: the rows, one a key where there is a key to look at.
        rows: how many; None when nobody counted them.
        keys: their keys, one row each, key columns only, cheap to read again; None where no row has to be found by
            its key, or `prune` alone names the keys.
        prune: literal bounds of the rows, derived from the rows themselves.
        skip_equal: rows that the table holds in every column already are left alone.
        deleted_keys: the keys that are deleted as well; None for none.
        skipped: why nothing was written, where what differs is not worth a load.
        held: the rows as Spark keeps them; the engine calls its `unpersist()` once nobody reads them again.
        folded: what the rows were made of, where they were events.
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
