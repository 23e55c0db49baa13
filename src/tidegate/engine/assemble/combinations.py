"""Lists every combination of strategy, writer, deletes, source and table format that `tidegate check` accepts.

Derived from what plugins declare, by the rule that `check` applies to a stream. Used by tests and for a table in the
docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tidegate import plugins
from tidegate.config import build
from tidegate.config.nodes import from_values
from tidegate.core.compatibility import incompatibilities
from tidegate.core.flavours import Flavour, flavours_of
from tidegate.core.policies.deletes import Apply, Deletes, Detect, Scope
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer

KEY = ("id",)
DELETES = tuple(
    Deletes(detect=detect, apply=apply, scope=scope) for detect in Detect for scope in Scope for apply in Apply
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Parts that work together.

    Args:
        method: the strategy's way to work; empty for a strategy that has one alone.
        options: of the strategy for this method, as a project states them.
        keyed: the stream has a `key:`.
        flavour: of the source: its dialect, its file format, its table format, or the place and the envelope of a log.
    """

    strategy: str
    method: str
    options: Mapping[str, Any] = field(compare=False)
    writer: str
    keyed: bool
    deletes: Deletes
    source: str
    flavour: str
    table_format: str

    def __str__(self) -> str:
        way = f"{self.strategy} {self.method}".strip()
        deletes = f"deletes: {self.deletes.detect} {self.deletes.apply} {self.deletes.scope}"
        key = "with a key" if self.keyed else "without a key"
        return f"{way}, {self.writer} {key}, {deletes}, {self.source}: {self.flavour}, {self.table_format}"


def combinations() -> Iterator[Combination]:
    """Those that are accepted, sorted by the names of their plugins."""
    yield from (combination for combination, reasons in judged() if not reasons)


def judged() -> Iterator[tuple[Combination, tuple[str, ...]]]:
    """Every combination that a project can state, with the reasons for which `check` refuses it; none if it does not.

    A writer that needs a key is always given one.
    """
    writers = [build("writers", from_values({"kind": kind})) for kind in plugins.names("writers")]
    formats, sources = plugins.names("formats"), list(_flavours())
    for strategy, method, options in _strategies():
        for (writer, keyed, deletes), (source, flavour) in product(_written(writers), sources):
            key = KEY if keyed else ()
            reasons = incompatibilities(strategy=strategy, writer=writer, key=key, flavour=flavour, deletes=deletes)
            for table_format in formats:
                found = Combination(
                    strategy=strategy.kind,
                    method=method,
                    options=options,
                    writer=writer.kind,
                    keyed=keyed,
                    deletes=deletes,
                    source=source,
                    flavour=flavour.name,
                    table_format=table_format,
                )
                yield found, reasons


def _strategies() -> Iterator[tuple[Strategy, str, Mapping[str, Any]]]:
    for kind in plugins.names("strategies"):
        for method, options in methods(kind).items():
            yield build("strategies", from_values({"kind": kind, **options})), method, options


def methods(strategy: str) -> Mapping[str, Mapping[str, Any]]:
    """The ways in which a kind of strategy works, each with options as a project states them."""
    found: Mapping[str, Mapping[str, Any]] = getattr(plugins.load("strategies", strategy), "variants", {"": {}})
    return found


def _written(writers: list[Writer]) -> Iterator[tuple[Writer, bool, Deletes]]:
    for writer in writers:
        for keyed in (True,) if writer.needs_key else (False, True):
            yield from ((writer, keyed, deletes) for deletes in DELETES)


def _flavours() -> Iterator[tuple[str, Flavour]]:
    for kind in plugins.names("sources"):
        yield from ((kind, flavour) for flavour in flavours_of(plugins.load("sources", kind)))
