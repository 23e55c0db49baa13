"""Decides whether a strategy, a writer and a stream's options can work together.

Called by assemble before anything runs; pure. Must never be repeated in a plugin.
"""

from __future__ import annotations

from tidegate.core.deletes import Deletes, Detect, Scope
from tidegate.core.protocols import Source, Strategy, Writer


def misfits(
    *,
    strategy: Strategy,
    writer: Writer,
    key: tuple[str, ...],
    source: type[Source] | None = None,
    deletes: Deletes | None = None,
) -> tuple[str, ...]:
    """Every reason why the parts cannot work together, one sentence each; empty when they can.

    Args:
        source: its class says which slices it reads beside those that every source reads.

    Example:
        >>> from tidegate.strategies.full import Full
        >>> from tidegate.writers.merge import Merge
        >>> misfits(strategy=Full(), writer=Merge(), key=())
        ('write: merge needs `key:`, the columns that identify a row',)
    """
    found = list(strategy.problems())
    whatever = getattr(strategy, "chooses", False)
    if not (strategy.emits <= writer.accepts if whatever else strategy.emits & writer.accepts):
        emits, accepts = (", ".join(sorted(values)) for values in (strategy.emits, writer.accepts))
        found.append(f"strategy {strategy.kind} emits {emits}; write: {writer.kind} accepts {accepts}")
    special: frozenset[type] = getattr(strategy, "reads", frozenset())
    if source is not None and not special <= getattr(source, "reads", frozenset()):
        needed = ", ".join(sorted(slice_kind.__name__ for slice_kind in special))
        found.append(f"strategy {strategy.kind} reads slices that this source does not have ({needed})")
    if writer.needs_key and not key:
        found.append(f"write: {writer.kind} needs `key:`, the columns that identify a row")
    if strategy.rereads and not writer.idempotent:
        found.append(
            f"strategy {strategy.kind} with these options reads rows again, and write: {writer.kind} would add "
            "them twice; use write: merge with a `key:`"
        )
    return (*found, *_deletes(deletes or Deletes(), strategy, writer, key))


def _deletes(deletes: Deletes, strategy: Strategy, writer: Writer, key: tuple[str, ...]) -> list[str]:
    found = []
    if deletes.soft and writer.kind != "merge":
        found.append(f"deletes: {{apply: soft}} marks rows by their key, and write: {writer.kind} does not; use merge")
    if deletes.max_fraction is not None and writer.kind == "scd2":
        found.append("deletes: {max_fraction: …} holds back deletes, and write: scd2 ends versions and deletes nothing")
    if deletes.detect is not Detect.KEY_DIFF:
        return found
    if writer.kind != "merge":
        found.append(f"deletes: {{detect: key_diff}} deletes by key, and write: {writer.kind} does not; use merge")
    if not key:
        found.append("deletes: {detect: key_diff} needs `key:`, the columns that identify a row")
    if not strategy.cursor:
        found.append(
            f"deletes: {{detect: key_diff}} is for strategies that go on from a cursor, and {strategy.kind} has none; "
            "strategy snapshot_diff compares whole rows, deleted ones among them"
        )
    elif deletes.scope is Scope.WINDOW and not strategy.rereads:
        found.append("deletes: {scope: window} needs a window that is compared again: give the strategy a `lookback:`")
    return found
