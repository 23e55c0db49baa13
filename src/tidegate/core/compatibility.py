"""The rule that says which strategy, writer, deletes and source work together.

`check` and every run ask it of a stream, `engine/assemble/combinations` of every combination that there is, so that
both always agree. Pure; plugins declare what they need and never check each other.

A strategy may declare `always`, what it emits of `emits` whatever the source holds (all of them unless stated);
`reads`, slices that not every source has; `bound`, the safe bound that it needs; `by_range`, that the source has to say
how its table is cut; `removes_files`, that rows have to carry their file's name; and `variants`, by name the options of
each way that it can work, as a project states them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.core.effects import Apply, Effect, Insert, Mirror, Upsert
from tidegate.core.flavours import Bound, Flavour
from tidegate.core.policies.deletes import Deletes, Detect, Scope
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.versioned_writer import VersionedWriter

FINDS_DELETES = frozenset({Mirror, Apply})
CONTENT: Mapping[type[Effect], str] = {
    Insert: "new rows",
    Upsert: "changed rows",
    Mirror: "whole tables or partitions",
    Apply: "events",
}
NO_BOUND = {
    Bound.TIME: "no safe bound of a timestamp is known there; use strategy full or checksum, or watermark with "
    "`clock: application`, `safety_lag:`, `lookback:` and `time_zone:`",
    Bound.APPLICATION_TIME: "no column orders its rows",
    Bound.NUMBER: "no safe bound of a number is known there; name a `table:` of a database that hands the numbers out, "
    "or use another strategy",
}


def misfits(
    *,
    strategy: Strategy,
    writer: Writer,
    key: tuple[str, ...],
    flavour: Flavour | None = None,
    deletes: Deletes | None = None,
) -> tuple[str, ...]:
    """Every reason why the parts cannot work together, one sentence each; empty when they can.

    Args:
        flavour: of the source; None leaves the source out of it.

    Example:
        >>> from tidegate.strategies.full import Full
        >>> from tidegate.writers.merge import Merge
        >>> misfits(strategy=Full(), writer=Merge(), key=())
        ('write: merge needs `key:`, the columns that identify a row',)
    """
    rules = Deletes() if deletes is None else deletes
    return (
        *strategy.problems(),
        *_writing(strategy, writer, key),
        *(() if flavour is None else _reading(strategy, flavour)),
        *_deletes(rules, strategy, writer, key),
        *(() if flavour is None else _marks(rules, strategy, flavour)),
    )


def _writing(strategy: Strategy, writer: Writer, key: tuple[str, ...]) -> Iterator[str]:
    needed: frozenset[type[Effect]] = getattr(strategy, "always", strategy.emits)
    if not needed <= writer.accepts:
        emits, accepts = (" and ".join(sorted(CONTENT[one] for one in effects)) for effects in (needed, writer.accepts))
        yield (
            f"strategy {strategy.kind} reads {emits}, and write: {writer.kind} takes only {accepts}; "
            "use write: merge with a `key:`, which takes them all"
        )
    if writer.needs_key and not key:
        yield f"write: {writer.kind} needs `key:`, the columns that identify a row"
    if strategy.rereads and not writer.idempotent:
        yield (
            f"strategy {strategy.kind} with these options reads rows again, and write: {writer.kind} would add "
            "them twice; use write: merge with a `key:`"
        )
    if isinstance(writer, VersionedWriter) and getattr(strategy, "significant_change", None) is not None:
        yield (
            f"significant_change leaves differences out, and write: {writer.kind} keeps each of them; take it out of "
            "the strategy, or use write: merge"
        )


def _reading(strategy: Strategy, flavour: Flavour) -> Iterator[str]:
    special: frozenset[type] = getattr(strategy, "reads", frozenset())
    if not special <= flavour.reads:
        needed = ", ".join(sorted(slice_kind.__name__ for slice_kind in special))
        yield f"strategy {strategy.kind} reads slices that this source does not have ({needed})"
    if not special and not flavour.rows:
        yield (
            f"strategy {strategy.kind} reads rows, and this source is a log of changes; use strategy cdc, or name the "
            "table itself: `source: {connection: …, table: …}`"
        )
        return
    bound: Bound | None = getattr(strategy, "bound", None)
    if bound is not None and flavour.rows and bound not in flavour.bounds:
        yield f"strategy {strategy.kind} cannot read from {flavour.name}: {NO_BOUND[bound]}"
    if getattr(strategy, "by_range", False) and not flavour.ranges:
        yield (
            f"method by_range takes the ranges in which a database keeps a table, and {flavour.name} has none; "
            "use by_integer, by_date or by_substr"
        )
    if getattr(strategy, "removes_files", False) and not flavour.carries:
        yield (
            "on_delete: remove finds the rows of a file by a column that carries its name, and there is none; "
            "write `source: {path: …, file_name: source_file}`"
        )


def _deletes(deletes: Deletes, strategy: Strategy, writer: Writer, key: tuple[str, ...]) -> Iterator[str]:
    if deletes.soft and not writer.deletes_by_key:
        yield f"deletes: {{apply: soft}} marks rows by their key, and write: {writer.kind} does not; use merge"
    if deletes.max_fraction is not None and isinstance(writer, VersionedWriter):
        yield (
            f"deletes: {{max_fraction: …}} holds back deletes, and write: {writer.kind} ends versions and deletes "
            "nothing"
        )
    if deletes.detect is not Detect.KEY_DIFF:
        if deletes.scope is Scope.WINDOW:
            yield "deletes: {scope: window} says where keys are looked for; add `detect: key_diff`"
        return
    if not writer.deletes_by_key:
        yield f"deletes: {{detect: key_diff}} deletes by key, and write: {writer.kind} does not; use merge"
    if not key:
        yield "deletes: {detect: key_diff} needs `key:`, the columns that identify a row"
    if not strategy.cursor:
        yield (
            f"deletes: {{detect: key_diff}} is for strategies that go on from a cursor, and {strategy.kind} has none; "
            "strategy snapshot_diff compares whole rows, deleted ones among them"
        )
    elif deletes.scope is Scope.WINDOW and not getattr(strategy, "lookback", None):
        yield "deletes: {scope: window} needs a window that is compared again: give the strategy a `lookback:`"


def _marks(deletes: Deletes, strategy: Strategy, flavour: Flavour) -> Iterator[str]:
    """Refuses to mark deleted rows where nothing ever finds one."""
    by_file = bool(getattr(strategy, "reads", None)) and flavour.carries
    if not deletes.soft or deletes.detect is Detect.KEY_DIFF or strategy.emits & FINDS_DELETES or by_file:
        return
    advice = "add `detect: key_diff`" if strategy.cursor else "write `source: {path: …, file_name: source_file}`"
    yield f"deletes: {{apply: soft}} would never mark a row: strategy {strategy.kind} sees no deletes; {advice}"
