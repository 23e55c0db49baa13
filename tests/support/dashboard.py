"""A service with a registry full of streams in every state, for tests of the dashboard."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue

from sqlalchemy import Connection, insert

from support.registry_rows import (
    SECRET,
    THROUGH,
    change_rows,
    interval_rows,
    log_row,
    name,
    plan_row,
    position_row,
    run_row,
    task_row,
    upkeep_rows,
)
from tidegate import Project
from tidegate.core.health import Health
from tidegate.engine.events import Event
from tidegate.engine.overview import recorded
from tidegate.registry.reader import RegistryReader
from tidegate.registry.tables import (
    backfill_chunks,
    backfills,
    checksums,
    intervals,
    object_info,
    plans,
    positions,
    run_logs,
    run_totals,
    runs,
    status_change_log,
    tasks,
)
from tidegate.service.web.port import Action

STATES = (*Health, "never")


@dataclass
class FakeService:
    """What the dashboard asked of it is in `asked`; pauses and acknowledgements reach the registry."""

    project: Project
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    queues: list[SimpleQueue[Event]] = field(default_factory=list)
    held: list[object] = field(default_factory=list)

    @property
    def registry(self) -> RegistryReader:
        return self.project.registry

    @contextmanager
    def subscribe(self) -> Iterator[SimpleQueue[Event]]:
        mine: SimpleQueue[Event] = SimpleQueue()
        self.queues.append(mine)
        try:
            yield mine
        finally:
            self.queues.remove(mine)

    def request(self, action: Action, stream: str, who: str) -> None:
        self.asked.append((str(action), stream, who))

    def pause(self, stream: str, who: str) -> None:
        self.asked.append(("pause", stream, who))
        self.project.attention.pause(stream, who)

    def resume(self, stream: str, who: str) -> None:
        self.asked.append(("resume", stream, who))
        self.project.attention.resume(stream, who)

    def acknowledge(self, stream: str, who: str) -> None:
        self.asked.append(("acknowledge", stream, who))
        self.project.attention.acknowledge(stream, who)

    def memory(self) -> int | None:
        return 123_456_789

    def close(self) -> None:
        for lease in self.held:
            lease.__exit__(None, None, None)
        self.project.close()


def project(folder: Path, streams: int, *, registry: str | None = None) -> Project:
    """A project with so many streams of an SQLite source that is not there."""
    entry = {
        "source": {"connection": "shop", "table": "main.t"},
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
        "write": "merge",
        "schedule": {"every": "1h"},
    }
    kinds = [{"not_null": "id"}]
    return Project.from_dict(
        {
            **({"registry": registry} if registry else {}),
            "connections": {"shop": {"url": f"postgresql://app:{SECRET}@127.0.0.1:1/shop"}},
            "streams": {
                name(number): {
                    **entry,
                    "target": f"lake.shop.t{number}",
                    "tags": ["nightly"] if number % 3 else ["hourly", "finance"],
                    "checks": kinds,
                }
                for number in range(streams)
            },
        },
        folder=folder,
    )


def state_of(number: int) -> str:
    return str(STATES[number % len(STATES)])


def seeded(
    made: Project, *, runs_each: int = 20, live: bool = True, spaced: timedelta = timedelta(hours=1)
) -> FakeService:
    """The registry of the project with runs, and its streams in all states, by turns."""
    service, numbers = FakeService(made), {}
    for number, (status, _) in enumerate(recorded(made.config, made.lakes, (), datetime.now(UTC))):
        if state_of(number) == "never":
            continue
        numbers[number] = made.registry.register(
            uid=status.uid, name=status.stream, source=status.source, target=status.target
        )
        if live and state_of(number) == Health.RUNNING:
            lease = made.registry.lease(status.uid)
            lease.__enter__()
            service.held.append(lease)
    with made.registry._database.write() as connection:
        for number, object_id in numbers.items():
            _fill(connection, number, object_id, runs_each, spaced)
    for number in numbers:
        if state_of(number) == Health.PAUSED:
            made.attention.pause(name(number), "ann")
    return service


def _fill(connection: Connection, number: int, object_id: int, many: int, spaced: timedelta) -> None:
    chance, now, state = random.Random(number), datetime.now(UTC), state_of(number)
    back = {"delayed": timedelta(hours=2, minutes=20), "error": timedelta(hours=5)}.get(state, timedelta(minutes=12))
    rows = []
    for place in range(many):
        at = now - back - spaced * (many - 1 - place)
        last = place == many - 1
        outcome = (
            {"action_required": "stopped"}.get(state, "loaded")
            if last
            else chance.choice(["loaded"] * 6 + ["unchanged"])
        )
        outcome = "failed" if last and state == "error" and number % 2 else outcome
        outcome = "running" if last and state == "running" else outcome
        run_id = uuid.UUID(int=chance.getrandbits(128)).hex
        rows.append(run_row(object_id, run_id, at, outcome, number, chance))
    connection.execute(insert(runs), [{**row, "number": place} for place, row in enumerate(rows, 1)])
    loads = [(f"{chance.getrandbits(128):032x}", run) for run in rows if run["outcome"] == "loaded"]
    connection.execute(insert(tasks), [task_row(object_id, run, chance) for _, run in loads])
    connection.execute(insert(plans), [plan_row(object_id, load_id, run, number) for load_id, run in loads])
    connection.execute(
        insert(positions), [position_row(object_id, place, *load) for place, load in enumerate(loads, 1)]
    )
    connection.execute(insert(status_change_log), [each for run in rows for each in change_rows(object_id, run)])
    connection.execute(insert(run_totals), _totals(object_id, rows))
    if upkeep := upkeep_rows(object_id, number, now):
        connection.execute(insert(tasks), upkeep)
    if number % 20 == 0:
        _backfill(connection, object_id, now)
    connection.execute(insert(run_logs), [log_row(run) for run in rows[-5:]])
    if number in PARTITIONED:
        _partitions(connection, object_id, PARTITIONED[number], now)
    else:
        connection.execute(insert(intervals), interval_rows(object_id, number, now))
    told = {"loaded_through": THROUGH, "verified_through": THROUGH, "verified_ts": now - back}
    connection.execute(object_info.update().where(object_info.c.object_id == object_id).values(told))


def _totals(object_id: int, made: list[dict]) -> list[dict]:
    sums: dict[tuple[str, str], float] = {}
    for run in made:
        told = run["outcome_payload"] or {}
        found = {
            ("runs", run["outcome"]): 1,
            **{("seconds", key): each for key, each in told.get("seconds", {}).items()},
        }
        found |= {("rows", key[5:]): each for key, each in told.items() if key.startswith("rows_")}
        for key, each in found.items():
            sums[key] = sums.get(key, 0) + each
    return [{"object_id": object_id, "measure": key[0], "label": key[1], "value": each} for key, each in sums.items()]


PARTITIONED = {8: "hour", 9: "month", 10: "by_integer"}
"""The streams that are loaded by partition, and how they are divided."""


def _partitions(connection: Connection, object_id: int, how: str, now: datetime) -> None:
    """As the ledger keeps them: of some the last load was not verified, of some it failed, one never landed."""
    labels = [f"202503{day:02}{hour:02}" for day in range(1, 8) for hour in range(24)]
    labels = [f"2024{month:02}" for month in range(1, 13)] if how == "month" else labels
    labels = [str(number) for number in range(1, 60)] if how == "by_integer" else labels
    method = {"type": "by_date", "column_name": "at", "period": how} if how != "by_integer" else {"type": how}
    connection.execute(object_info.update().where(object_info.c.object_id == object_id).values(checksum_method=method))
    facts = {"object_id": object_id, "checksum_method": method, "created_ts": now, "updated_ts": now}
    kept = [
        {"extract_group_id": label, "partition_checksum": "tg1:5:0:0:0:0", "partition_row_count": 5, **facts}
        for label in labels[:-1]
    ]
    connection.execute(insert(checksums), kept)
    sides = {"source_object_id": object_id, "target_object_id": object_id, "start_ts": now, "finish_ts": now}
    loads = [
        {"task_type": "load_partition", "extract_group_id": label, **sides}
        | {"status_cd": "ERROR" if number % 7 == 3 or label == labels[-1] else "OK"}
        | {"result_payload": {"verified": number % 5 != 2}}
        for number, label in enumerate(labels)
    ]
    connection.execute(insert(tasks), loads)


def _backfill(connection: Connection, object_id: int, now: datetime) -> None:
    facts = {"parallel": 2, "rate": None, "status_cd": "RUNNING", "created_ts": now, "updated_ts": now}
    made = insert(backfills).values(object_id=object_id, begin_value="2024-01-01", end_value="2025-01-01", **facts)
    number = connection.execute(made.returning(backfills.c.backfill_id)).scalar_one()
    chunk = {"backfill_id": number, "row_count": 5000, "attempts": 1, "seconds": 3.0, "updated_ts": now}
    states = ["DONE"] * 7 + ["FAILED"] + ["WAITING"] * 4
    months = [f"2024-{month:02}-01" for month in range(1, 13)]
    chunks = [
        {"number": place, "after_value": month, "upto_value": month[:8] + "28", "status_cd": state, **chunk}
        for place, (month, state) in enumerate(zip(months, states, strict=True))
    ]
    connection.execute(insert(backfill_chunks), chunks)
