"""The keys that a position's `state` has beside the strategy's own, and the only module that reads them.

They say what the table holds of the events of a log, of partitions, of files and of keys. Everything else in a state
belongs to the strategy that wrote it, and only that strategy reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FENCE = "fence"
"""What counts of the events that are remembered beside the table, see `EventFence`."""
WHOLE = "whole"
"""In it, for a history: the load after which nothing but events wrote the table."""
KEYS = "keys"
"""Of which keys at the source the table holds none but these."""
MANIFEST = "manifest"
"""The digest of the files that are in the table, see `Manifest`."""
METHOD = "method"
"""How the table was partitioned when it was compared last."""
VOUCHER = ("total", "ledger")
"""Sum and digest of the partitions that are in the table, see `Ledger`."""
BEGIN = "begin"
"""From where on the table holds the source's rows, as `{"column": …, "value": …}`."""
LOOKBACK = "lookback"
"""The option that says from where on partitions were compared; absent where all of them were."""
CURSOR = "cursor"
"""The columns by which rows were ordered."""
COLUMNS = "columns"
"""The types of the columns of files so far; an empty one for a column that was there and left out."""
FETCHED = "fetched"
"""How far the API was read whose answers the files are, see `ListedFiles.progress`."""
EMPTY = "empty"
"""Says that the table was created without rows, and nothing else: what comes next is still a first load."""
AS_LOADED = "as_loaded"
"""Of a load of the whole table: its id, and what else has to be the same for the position to prove the table."""
OWN_FINGERPRINT = "own_fingerprint"
"""What the source answered of all its columns, see `Probe.own_fingerprint`."""
WHOLE_AT = "whole_at"
"""When the whole table was compared or loaded last, by a strategy that does not do so each time."""
COMPARED = ("window", "rechecks", "nulls")
"""Fingerprints of the rows before a cursor's value, and of those without one, as they were loaded."""
CLAIMS = frozenset({*VOUCHER, *COMPARED, KEYS, "version", "fingerprint", OWN_FINGERPRINT, WHOLE_AT})
"""By which a strategy knows, without a look, that rows of the table are as the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFence:
    """Which of the events count that are remembered beside a table.

    Those of loads after `after` and before `number`, and of load `number` if its id is `load`.

    Args:
        whole: of a history, the load after which nothing but events wrote the table; `after` for every other table.
    """

    after: int
    number: int
    load: str
    whole: int

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> EventFence | None:
        """That of a position's state; None where it says nothing of events."""
        return cls.written(state) if FENCE in state else None

    @classmethod
    def written(cls, state: Mapping[str, Any]) -> EventFence:
        """That of the position of a load of events, which always says it."""
        found = state[FENCE]
        after = int(found["after"])
        return cls(
            after=after, number=int(found["number"]), load=str(found["load"]), whole=int(found.get(WHOLE, after))
        )


def is_of_empty_table(state: Mapping[str, Any]) -> bool:
    """Whether the position is that of a table which was created without rows."""
    return EMPTY in state


def proof_of(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a load of the whole table noted, see `AS_LOADED`; nothing where it noted nothing."""
    found: Mapping[str, Any] = state.get(AS_LOADED) or {}
    return found


def proven_by(state: Mapping[str, Any], load_id: str) -> Mapping[str, Any]:
    """The state with the id of the load that notes what the whole table is: no other load may say it in its place."""
    return {**state, AS_LOADED: {**proof_of(state), "load": load_id}} if AS_LOADED in state else state


def key_census(state: Mapping[str, Any]) -> Any:
    """What the source's keys were when the table held no others; None where nobody looked."""
    return state.get(KEYS)


def method_of(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How the table was partitioned when it was compared last, as `Grouping.to_dict`; None where it was not."""
    found: Mapping[str, Any] | None = state.get(METHOD)
    return found


def described_method(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """`method_of` with the lookback, for people and their queries."""
    method = method_of(state)
    return None if method is None else {**method, **({LOOKBACK: state[LOOKBACK]} if LOOKBACK in state else {})}


def without_lookback(method: Mapping[str, Any]) -> dict[str, Any]:
    """The method of `described_method`."""
    return {name: value for name, value in method.items() if name != LOOKBACK}


def begin_of(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """From where on the table holds the source's rows; None where it holds all of them."""
    found: Mapping[str, Any] | None = state.get(BEGIN)
    return found


def compared_from(state: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a state that say from where on partitions were compared; empty where all of them were."""
    return {name: state[name] for name in (BEGIN, LOOKBACK) if state.get(name)}


def cursor_of(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns by which rows were ordered; empty for none."""
    return tuple(state.get(CURSOR, ()))


def names_files(state: Mapping[str, Any]) -> bool:
    """Whether the table was loaded by files, which a manifest lists."""
    return MANIFEST in state


def columns_of(state: Mapping[str, Any]) -> dict[str, str]:
    """The types of the columns of the files that were loaded; empty where no type is known."""
    return dict(state.get(COLUMNS, ()))


def fetched_of(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """How far the API was read whose answers were loaded; nothing where there is none."""
    found: Mapping[str, Any] = state.get(FETCHED) or {}
    return found


def names_partitions(state: Mapping[str, Any]) -> bool:
    """Whether the table was compared by partitions, which a ledger lists."""
    return "ledger" in state


def renamed(state: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The state by the names that columns have now; old names to new ones.

    Example:
        >>> renamed({"cursor": ["at"], "value": "at", "method": {"column": "day"}}, {"at": "changed_at"})
        {'cursor': ['changed_at'], 'value': 'at', 'method': {'column': 'day'}}
    """
    found = dict(state)
    if CURSOR in state:
        found[CURSOR] = [names.get(name, name) for name in state[CURSOR]]
    for part in (METHOD, BEGIN):
        if state.get(part):
            found[part] = _of_column(state[part], names)
    return found


def _of_column(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    column = values.get("column")
    return {**values, **({"column": names.get(column, column)} if column is not None else {})}


def unvouched(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a position that vouches for no partition.

    Example:
        >>> unvouched({"method": {}, "total": "0", "ledger": "d7"})
        {'method': {}}
    """
    return {name: value for name, value in state.items() if name not in VOUCHER}


def unclaimed(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without what any strategy claims by it; one that continues from such a key keeps it itself."""
    return {name: value for name, value in state.items() if name not in CLAIMS}
