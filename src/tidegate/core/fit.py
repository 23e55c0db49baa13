"""Decides whether a strategy, a writer and a stream's options can work together.

Called by assemble before anything runs; pure. Must never be repeated in a plugin.
"""

from __future__ import annotations

from tidegate.core.protocols import Strategy, Writer


def misfits(*, strategy: Strategy, writer: Writer, key: tuple[str, ...]) -> tuple[str, ...]:
    """Every reason why the parts cannot work together, one sentence each; empty when they can.

    Example:
        >>> from tidegate.strategies.full import Full
        >>> from tidegate.writers.merge import Merge
        >>> misfits(strategy=Full(), writer=Merge(), key=())
        ('write: merge needs `key:`, the columns that identify a row',)
    """
    found = list(strategy.problems())
    if not strategy.emits & writer.accepts:
        emits, accepts = (", ".join(sorted(values)) for values in (strategy.emits, writer.accepts))
        found.append(f"strategy {strategy.kind} emits {emits}; write: {writer.kind} accepts {accepts}")
    if writer.needs_key and not key:
        found.append(f"write: {writer.kind} needs `key:`, the columns that identify a row")
    if strategy.rereads and not writer.idempotent:
        found.append(
            f"strategy {strategy.kind} with these options reads rows again, and write: {writer.kind} would add "
            "them twice; use write: merge with a `key:`"
        )
    return tuple(found)
