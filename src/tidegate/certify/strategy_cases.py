"""Cases about strategies: a first load, nothing, changes of every kind, and transactions that stay open meanwhile."""

from __future__ import annotations

import time

from tidegate.certify.report import State
from tidegate.certify.source_tables import SourceTable, Value
from tidegate.certify.streams import EVENTS, ORDERS
from tidegate.certify.trial import Trial
from tidegate.core.report import RunReport

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
    for stream in STREAMS:
        if stream in trial.unsupported:
            trial.record(STRATEGIES, stream, trial.unsupported[stream], state=State.NOT_SUPPORTED)
    orders.insert(*(order(orders, key, code, 10 * key) for key, code in enumerate(CODES, start=1)))
    if events:
        events.insert(*(event(events, f"event {n}") for n in range(5)))
    time.sleep(SETTLED)
    streams = _first(trial)
    if not streams:
        return
    again = trial.run(*streams)
    for stream in streams:
        moved = again[stream].outcome != "unchanged" and stream not in UNMOVED
        problem = str(again[stream].error or "") or (f"it is {again[stream].outcome}" if moved else "")
        trial.record(STRATEGIES, f"{stream}: a run without changes moves nothing", problem)
    _change(orders, events)
    time.sleep(SETTLED)
    _record(trial, STRATEGIES, "inserts, updates and deletes", trial.run(*streams))
    bounded = [stream for stream in BOUNDED if stream in streams]
    if trial.kit.transactions and bounded:
        _late(trial, bounded)
    else:
        reason = "no load runs while a transaction is open" if bounded else "no strategy reads up to a bound"
        trial.record(BOUNDS, "a transaction that is open during a load", reason, state=State.NOT_SUPPORTED)
    if "snapshot_diff" in streams:
        with trial.guarded(VERIFY, "a row that differs"):
            _tampered(trial, orders)


def _first(trial: Trial) -> list[str]:
    """The streams of which the first load succeeded."""
    streams = trial.supported(*STREAMS)
    report, going = trial.run(*streams), []
    for stream in streams:
        error = report[stream].error
        if error is not None and stream == "cdc" and error.exit_code == CONFIGURATION:
            trial.record(STRATEGIES, stream, str(error), state=State.NOT_SUPPORTED)
            continue
        problem = str(error) if error else trial.compared(stream, table_of(trial, stream))
        if trial.record(STRATEGIES, f"{stream}: first load", problem):
            going.append(stream)
    return going


def _record(trial: Trial, group: str, what: str, report: RunReport) -> None:
    for outcome in report:
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
    report = trial.run(*streams)
    for stream in streams:
        problems = [str(run[stream].error) for run in (meanwhile, report) if run[stream].error]
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
