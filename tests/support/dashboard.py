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

from sqlalchemy import insert

from tidegate import Project
from tidegate.core.health import Health
from tidegate.core.position import Position
from tidegate.engine.events import Event
from tidegate.engine.overview import recorded
from tidegate.registry.reader import RegistryReader
from tidegate.registry.tables import intervals, object_info, positions, runs, tasks
from tidegate.service.web.port import Action

SECRET = "Tr0ub4dor-and-3"
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


def name(number: int) -> str:
    return f"orders_{number:03}"


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


def _fill(connection, number: int, object_id: int, many: int, spaced: timedelta) -> None:
    chance, now, state = random.Random(number), datetime.now(UTC), state_of(number)
    back = {"delayed": timedelta(hours=2, minutes=20), "error": timedelta(hours=5)}.get(state, timedelta(minutes=12))
    rows, made = [], []
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
        rows.append(_run(object_id, run_id, at, outcome, number, chance))
        made += _tasks(object_id, run_id, at, chance) if outcome == "loaded" else []
    connection.execute(insert(runs), rows)
    connection.execute(insert(tasks), made[-60:])
    parts = [("done", 700), ("unverified", 300), ("stale", 20), ("empty", 0), ("failed", 4)]
    connection.execute(
        insert(intervals),
        [
            {
                "object_id": object_id,
                "after_value": f"2025-03-{day:02} 00:00:00",
                "upto_value": f"2025-03-{day + 1:02} 00:00:00",
                "state_cd": "done" if day < 20 else parts[day % 4][0],
                "row_count": parts[day % 4][1],
                "updated_ts": now,
            }
            for day in range(1, 28)
        ],
    )
    through = "2025-03-28 00:00:00"
    position = Position(
        sequence=9,
        load_id="a" * 32,
        kind="watermark",
        source="shop",
        state={"after": through},
        loaded_through=through,
    )
    connection.execute(
        insert(positions).values(
            object_id=object_id,
            revision=1,
            sequence=9,
            load_id="a" * 32,
            position=position.to_json(),
            snapshot="4711",
            verified=True,
            recorded_ts=now - back,
        )
    )
    connection.execute(
        object_info.update()
        .where(object_info.c.object_id == object_id)
        .values(loaded_through=through, verified_through=through, verified_ts=now - back)
    )


def _run(object_id: int, run_id: str, at: datetime, outcome: str, number: int, chance: random.Random) -> dict:
    moved = chance.randint(100, 9000) if outcome == "loaded" else 0
    error = None
    if outcome in ("failed", "stopped"):
        code = "write" if outcome == "failed" else "schema_refused"
        error = {"code": code, "message": f"the server refused {SECRET}", "hint": "Run `tidegate doctor`."}
    took = {"detect": 0.2, "plan": 0.1, "read": chance.random() * 9, "check": 0.4, "write": 2.5, "verify": 1.1}
    took = {**took, "advance": 0.1, "read_write": 5.0}
    took["total"] = round(sum(took.values()) - 5.0, 3)
    payload = {
        "stream": name(number),
        "outcome": outcome,
        "strategy": "watermark",
        "effect": "upsert",
        "write": "merge_on_read",
        "rows_read": moved,
        "rows_inserted": moved // 2,
        "rows_updated": moved - moved // 2,
        "rows_deleted": 0,
        "rows_quarantined": number % 5,
        "rows_warned": 0,
        "rows_superseded": 0,
        "log_taken": 0,
        "log_behind": 40 * (number % 4),
        "bytes_read": moved * 90,
        "snapshot": "4711",
        "verified": True,
        "arrivals": [[0, moved], [3600, number]],
        "seconds": took,
        "notes": ["a note"],
        "error": error,
    }
    ended = outcome != "running"
    return {
        "run_id": run_id,
        "object_id": object_id,
        "outcome": outcome,
        "started_ts": at,
        "finished_ts": at + timedelta(seconds=took["total"]) if ended else None,
        "started_by": "etl@host:7",
        "outcome_payload": payload if ended else None,
        "error": error,
        "row_count": moved if ended else None,
        "bytes_read": moved * 90 if ended else None,
        "seconds": took["total"] if ended else None,
    }


def _tasks(object_id: int, run_id: str, at: datetime, chance: random.Random) -> list[dict]:
    sides = f"tg1:{chance.randint(10, 9999)}:1a2b3c4d5e:6f708192a3:b4c5d6e7f8:091a2b3c4d"
    facts = {
        "source_object_id": object_id,
        "target_object_id": object_id,
        "run_id": run_id,
        "status_cd": "OK",
        "start_ts": at + timedelta(seconds=1),
        "finish_ts": at + timedelta(seconds=9),
    }
    load = {
        "task_type": "load",
        "extract_group_id": "(2025-03-27, 2025-03-28]",
        "result_payload": {
            "rows": 7,
            "snapshot": "4711",
            "verified": True,
            "level": "moved",
            "source_fingerprint": sides,
            "table_fingerprint": sides,
            "columns_not_covered": ["shape"],
        },
    }
    return [{**facts, **load}]
