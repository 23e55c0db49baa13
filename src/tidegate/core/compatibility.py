"""The rule that says which strategy, writer, deletes and source work together.

`check` and every run apply it to a stream, and `engine/assemble/combinations` to every possible combination, so that
all agree. Pure; plugins declare what they need and never check each other.

A strategy may declare `always`, the members of `emits` that it emits whatever the source contains (default: all);
`reads`, slices that not every source has; `bound`, the safe bound that it needs; `by_range`, that the source must
report its range partitions; `removes_files`, that rows must record their file's name; and `variants`, the options of
each of its methods by name, as a project states them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.core.effects import Apply, Effect, Insert, Mirror, Upsert
from tidegate.core.flavours import Bound, Flavour
from tidegate.core.policies.deletes import Deletes, Detect, Scope
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer

FINDS_DELETES = frozenset({Mirror, Apply})
CONTENT: Mapping[type[Effect], str] = {
    Insert: "new rows",
    Upsert: "changed rows",
    Mirror: "whole tables or partitions",
    Apply: "events",
}
NO_BOUND = {
    Bound.TIME: "it has no safe bound for timestamps; use strategy full or checksum, or watermark with "
    "`clock: application`, `safety_lag:`, `lookback:` and `time_zone:`",
    Bound.APPLICATION_TIME: "none of its columns orders its rows",
    Bound.NUMBER: "it has no safe bound for numbers; name a `table:` in the database that generates the numbers, or "
    "use another strategy",
}


def incompatibilities(
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
        >>> incompatibilities(strategy=Full(), writer=Merge(), key=())
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
            f"strategy {strategy.kind} reads {emits}, and write: {writer.kind} accepts only {accepts}; use write: "
            f"merge with a `key:`, which accepts all of them"
        )
    if writer.needs_key and not key:
        yield f"write: {writer.kind} needs `key:`, the columns that identify a row"
    if strategy.rereads and not writer.idempotent:
        yield (
            f"strategy {strategy.kind} with these options reads rows again, and write: {writer.kind} would add "
            "them twice; use write: merge with a `key:`"
        )
    if writer.versions is not None and getattr(strategy, "removes_files", False):
        yield (
            f"on_delete: remove deletes the rows of a file that is gone, and write: {writer.kind} keeps every version; "
            f"use on_delete: keep or stop, or write: merge"
        )
    if writer.versions is not None and getattr(strategy, "significant_change", None) is not None:
        yield (
            f"significant_change skips small differences, and write: {writer.kind} records every one of them; remove "
            f"it from the strategy, or use write: merge"
        )


def _reading(strategy: Strategy, flavour: Flavour) -> Iterator[str]:
    special: frozenset[type] = getattr(strategy, "reads", frozenset())
    if not special <= flavour.reads:
        needed = ", ".join(sorted(slice_kind.__name__ for slice_kind in special))
        yield f"strategy {strategy.kind} reads slices that this source does not have ({needed})"
    if not special and not flavour.rows:
        yield (
            f"strategy {strategy.kind} reads rows, and this source is a change log; use strategy cdc, or name the "
            "table itself: `source: {connection: …, table: …}`"
        )
        return
    bound: Bound | None = getattr(strategy, "bound", None)
    if bound is not None and flavour.rows and bound not in flavour.bounds:
        yield f"strategy {strategy.kind} cannot read from {flavour.name}: {NO_BOUND[bound]}"
    if getattr(strategy, "by_range", False) and not flavour.ranges:
        yield (
            f"method by_range uses the range partitions of a database table, and {flavour.name} has none; "
            "use by_integer, by_date or by_substr"
        )
    if getattr(strategy, "removes_files", False) and not flavour.carries:
        yield (
            "on_delete: remove finds the rows of a file by a column that holds the file's name, and there is none; set "
            "`source: {path: …, file_name: source_file}`"
        )


def _deletes(deletes: Deletes, strategy: Strategy, writer: Writer, key: tuple[str, ...]) -> Iterator[str]:
    if deletes.soft and not writer.deletes_by_key:
        yield f"deletes: {{apply: soft}} marks rows by key, which write: {writer.kind} cannot do; use merge"
    if deletes.max_fraction is not None and writer.versions is not None:
        yield (
            f"deletes: {{max_fraction: …}} limits deletes, and write: {writer.kind} closes versions and deletes nothing"
        )
    if deletes.detect is not Detect.KEY_DIFF:
        if deletes.scope is Scope.WINDOW:
            yield "deletes: {scope: window} sets where keys are compared; add `detect: key_diff`"
        return
    if not writer.deletes_by_key:
        yield f"deletes: {{detect: key_diff}} deletes by key, which write: {writer.kind} cannot do; use merge"
    if not key:
        yield "deletes: {detect: key_diff} needs `key:`, the columns that identify a row"
    if not strategy.cursor:
        yield (
            f"deletes: {{detect: key_diff}} is for strategies that continue from a cursor, and {strategy.kind} has "
            f"none; strategy snapshot_diff compares whole rows, including deleted ones"
        )
    elif deletes.scope is Scope.WINDOW and not getattr(strategy, "lookback", None):
        yield "deletes: {scope: window} needs a window to compare again: give the strategy a `lookback:`"


def _marks(deletes: Deletes, strategy: Strategy, flavour: Flavour) -> Iterator[str]:
    """Refuses to mark deleted rows where nothing ever finds one."""
    by_file = bool(getattr(strategy, "reads", None)) and flavour.carries
    if not deletes.soft or deletes.detect is Detect.KEY_DIFF or strategy.emits & FINDS_DELETES or by_file:
        return
    advice = "add `detect: key_diff`" if strategy.cursor else "set `source: {path: …, file_name: source_file}`"
    yield (
        f"deletes: {{apply: soft}} would never mark a row, because strategy {strategy.kind} detects no deletes; "
        f"{advice}"
    )
