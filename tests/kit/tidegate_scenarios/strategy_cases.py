"""Cases about strategies: a first load, nothing, changes of every kind, and transactions that stay open meanwhile."""

from __future__ import annotations

import time

from tidegate.core.outcome import Outcome
from tidegate_scenarios.report import State
from tidegate_scenarios.source_tables import SourceTable, Value
from tidegate_scenarios.streams import EVENTS, ORDERS
from tidegate_scenarios.trial import Trial, reason_of

STRATEGIES, BOUNDS, VERIFY = "strategies", "safe bounds", "verify"
STREAMS = (
    "full",
    "snapshot_diff",
    "snapshot_diff_by_text",
    "checksum",
    "checksum_by_text",
    "smart",
    "smart_column",
    "watermark",
    "watermark_application",
    "sequence",
    "cdc",
)
BOUNDED = ("watermark", "watermark_application", "smart_column", "sequence", "cdc")
UNMOVED = ("watermark_application",)
"""Compares its window on every run, and may read it again."""
CODES = ("a", "A", "ä", "Ä", "a ", "ab", "AB", "b", "it's", "~N|x", "10", "9", "é", "z\U0001f600")
SETTLED = 2.0  # seconds, after which a row is older than any safe bound of a clock
CONFIGURATION = 2
"""The exit code of what a server is not set up for."""
POLL = 1.0  # seconds, after which a log that is behind its table is read again


def number(value: int) -> Value:
    """An integer as SQL and Python write it."""
    return str(value), value


def order(table: SourceTable, key: int, code: str, amount: int) -> dict[str, Value]:
    """A row of orders."""
    return {"id": number(key), "code": (table.kit.string(code), code), "amount": number(amount)}


def event(table: SourceTable, code: str) -> dict[str, Value]:
    """A row of events, whose number the database gives."""
    return {"code": (table.kit.string(code), code)}


def table_of(trial: Trial, stream: str) -> SourceTable:
    """What a stream reads."""
    return trial.tables[EVENTS if stream == "sequence" else ORDERS]


def try_strategies(trial: Trial) -> None:
    """Every strategy that the database serves."""
    orders, events = trial.tables[ORDERS], trial.tables.get(EVENTS)
    for stream in _streams(trial):
        if stream in trial.unsupported:
            trial.record(STRATEGIES, stream, trial.unsupported[stream], state=State.NOT_SUPPORTED)
    orders.insert(*(order(orders, key, code, 10 * key) for key, code in enumerate(CODES, start=1)))
    if events:
        events.insert(*(event(events, f"event {n}") for n in range(5)))
    time.sleep(SETTLED)
    streams = _first(trial)
    if not streams:
        return
    again, late = trial.run(*streams), _behind(trial)
    for stream in streams:
        moved = again[stream].outcome != "unchanged" and stream not in (*UNMOVED, *late)
        problem = str(again[stream].error or "") or (f"it is {again[stream].outcome}" if moved else "")
        problem = problem or (trial.compared(stream, table_of(trial, stream)) if stream in late else "")
        trial.record(STRATEGIES, f"{stream}: a run without changes moves nothing", problem)
    _change(orders, events)
    time.sleep(SETTLED)
    _record(trial, STRATEGIES, "inserts, updates and deletes", _loaded(trial, streams))
    bounded = [stream for stream in streams if stream in (*BOUNDED, *_logs(trial))]
    if trial.kit.transactions and bounded:
        _late(trial, bounded)
    else:
        reason = "no load runs while a transaction is open" if bounded else "no strategy reads up to a bound"
        trial.record(BOUNDS, "a transaction that is open during a load", reason, state=State.NOT_SUPPORTED)
    if "snapshot_diff" in streams:
        with trial.guarded(VERIFY, "a row that differs"):
            _tampered(trial, orders)


def _streams(trial: Trial) -> list[str]:
    return list(dict.fromkeys([*STREAMS, *_logs(trial)]))


def _logs(trial: Trial) -> list[str]:
    """The streams of logs that the database keeps."""
    return ["cdc", *(log.name for log in trial.kit.logs)]


def _behind(trial: Trial) -> dict[str, float]:
    """The streams whose log the server writes later, by how many seconds at most."""
    return {log.name: log.behind for log in trial.kit.logs if log.behind}


def _loaded(trial: Trial, streams: list[str]) -> dict[str, Outcome]:
    """A run of each; one whose log is behind its table is run again until it is not."""
    found = {outcome.stream: outcome for outcome in trial.run(*streams)}
    late, began = _behind(trial), time.monotonic()
    while True:
        again = [
            stream
            for stream in late.keys() & found.keys()
            if time.monotonic() - began < late[stream]
            and found[stream].error is None
            and trial.compared(stream, table_of(trial, stream))
        ]
        if not again:
            return found
        time.sleep(POLL)
        found |= {outcome.stream: outcome for outcome in trial.run(*again)}


def _first(trial: Trial) -> list[str]:
    """The streams of which the first load succeeded."""
    streams = trial.supported(*_streams(trial))
    report, going = trial.run(*streams), []
    for stream in streams:
        error = report[stream].error
        if error is not None and stream in _logs(trial) and error.exit_code == CONFIGURATION:
            trial.record(STRATEGIES, stream, reason_of(error), state=State.NOT_SUPPORTED)
            continue
        problem = str(error) if error else trial.compared(stream, table_of(trial, stream))
        if trial.record(STRATEGIES, f"{stream}: first load", problem):
            going.append(stream)
    return going


def _record(trial: Trial, group: str, what: str, loaded: dict[str, Outcome]) -> None:
    for outcome in loaded.values():
        problem = (
            str(outcome.error) if outcome.error else trial.compared(outcome.stream, table_of(trial, outcome.stream))
        )
        trial.record(group, f"{outcome.stream}: {what}", problem)


def _change(orders: SourceTable, events: SourceTable | None) -> None:
    orders.insert(order(orders, 100, "new", 1), order(orders, 101, "neu ", 2))
    orders.update(number(3), "amount", number(-1))
    orders.update(number(4), "amount", number(0))
    orders.delete(number(5))
    orders.delete(number(1))
    if events:
        events.insert(event(events, "event 5"), event(events, "event 6"))


def _late(trial: Trial, streams: list[str]) -> None:
    """Rows of a transaction that began before others committed, and commits after a load.

    Where the database has one writer at a time, nobody else writes in between.
    """
    what = "a row of a transaction that was open during a load is not lost"
    orders, events, scratch = trial.tables[ORDERS], trial.tables.get(EVENTS), trial.scratch
    before = {id(table): dict(table.rows) for table in (orders, events) if table}
    scratch.begin()
    orders.insert(order(orders, 200, "late", 1))
    if events:
        events.insert(event(events, "late event"))
    late = {id(table): table.rows.keys() - before[id(table)].keys() for table in (orders, events) if table}
    other = scratch.connect_again()
    if other is not None:
        try:
            orders.insert(order(orders, 201, "early", 2), through=other)
            if events:
                events.insert(event(events, "early event"), through=other)
        finally:
            other.close()
    time.sleep(SETTLED)
    meanwhile = trial.run(*streams)
    dirty = {
        stream: [row for row in trial.found(stream) or () if row[table.key] in late[id(table)]]
        for stream in streams
        if (table := table_of(trial, stream))
    }
    scratch.commit()
    time.sleep(SETTLED)
    report = _loaded(trial, streams)
    for stream in streams:
        problems = [str(run.error) for run in (meanwhile[stream], report[stream]) if run.error]
        problems += ["it loaded a row that nobody had committed"] if dirty[stream] else []
        problems += [trial.compared(stream, table_of(trial, stream))]
        trial.record(BOUNDS, f"{stream}: {what}", "; ".join(problem for problem in problems if problem))


def _tampered(trial: Trial, orders: SourceTable) -> None:
    """A change that no load has seen: `verify` names one row, and repairs it."""
    stream = "snapshot_diff"
    trial.run(stream)
    orders.update(number(6), "amount", number(12345))
    found = trial.project.verify(stream, level="rows")[stream]
    problem = str(found.error or "") or ("" if found.rows_different == 1 else f"it finds {found.rows_different} rows")
    trial.record(VERIFY, "a row that differs is found", problem)
    repaired = trial.project.verify(stream, level="rows", repair=True)[stream]
    trial.record(VERIFY, "and repaired", str(repaired.error or "") or trial.compared(stream, orders))
