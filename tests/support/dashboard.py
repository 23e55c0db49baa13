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

from tidegate import Project
from tidegate.core.health import Health
from tidegate.core.position import Position
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
        rows.append(_run(object_id, run_id, at, outcome, number, chance))
    connection.execute(insert(runs), rows)
    loads = [(f"{chance.getrandbits(128):032x}", run) for run in rows if run["outcome"] == "loaded"]
    connection.execute(insert(tasks), [_task(object_id, run, chance) for _, run in loads])
    connection.execute(insert(plans), [_plan(object_id, load_id, run, number) for load_id, run in loads])
    connection.execute(insert(positions), [_position(object_id, place, *load) for place, load in enumerate(loads, 1)])
    connection.execute(insert(status_change_log), [each for run in rows for each in _changes(object_id, run)])
    connection.execute(insert(run_totals), _totals(object_id, rows))
    if upkeep := _upkeep(object_id, number, now):
        connection.execute(insert(tasks), upkeep)
    if number % 20 == 0:
        _backfill(connection, object_id, now)
    connection.execute(insert(run_logs), [_log(run) for run in rows[-5:]])
    if number in PARTITIONED:
        _partitions(connection, object_id, PARTITIONED[number], now)
    else:
        connection.execute(insert(intervals), _intervals(object_id, number, now))
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


THROUGH = "2025-03-28 00:00:00"
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


def _upkeep(object_id: int, number: int, now: datetime) -> list[dict]:
    """Whole tables that were compared: of every sixth stream equal, of the next ones different; and maintenance."""
    at = now - timedelta(minutes=3)
    facts = {"source_object_id": object_id, "target_object_id": object_id, "status_cd": "OK", "start_ts": at}
    facts |= {"finish_ts": at, "extract_group_id": None}
    saved = {"files": 40 + number, "bytes": 9_000_000 * (number + 1)}
    table = {"steps": [{"step": "compact"}, {"step": "expire"}], "saved": saved}
    found = [{"task_type": "maintain", "result_payload": {"tables": [table]}, **facts}] if number % 4 == 0 else []
    if number % 6 in (0, 1):
        sides = [f"tg1:{1_204_511 + off}:1a2b3c4d5e:6f708192a3:b4c5d6e7f8:091a2b3c4d" for off in (0, number % 6)]
        level = {"level": "checksum", "equal": number % 6 == 0, "snapshot": "4711", "columns_not_covered": []}
        payload = {**level, "source_fingerprint": sides[0], "table_fingerprint": sides[1]}
        found.append({"task_type": "measure_partition", "result_payload": payload, **facts})
    return found


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


def _log(run: dict) -> dict:
    """The lines of a run: read, check and write overlap as those of slices do, and the source answers meanwhile."""
    at, lines = run["started_ts"], []
    parts = [("detect", 0, 0.2), ("plan", 0.2, 0.1), ("verify", 0.4, 2.1), ("read", 0.3, 3.2), ("check", 3.5, 0.4)]
    parts += [("read", 3.4, 1.5), ("write", 3.9, 2.5), ("check", 4.9, 0.3), ("write", 5.2, 1.8)]
    parts += [("verify", 7.0, 1.1), ("advance", 8.1, 0.4)]
    for number, (stage, began, took) in enumerate(parts):
        aside = {"background": True} if number == 2 else {}
        told = "background" if aside else "done"
        when = (at + timedelta(seconds=began + took)).isoformat()
        lines.append({"at": when, "text": f"{stage} {told}, {took:.1f} s", "stage": stage, "seconds": took, **aside})
    lines.sort(key=lambda line: line["at"])
    lines.insert(0, {"at": at.isoformat(), "text": "detect start"})
    found = {"object_id": run["object_id"], "run_id": run["run_id"], "begun_ts": at}
    return {**found, "lines": lines if run["outcome"] == "loaded" else lines[:2], "left_out": 0}


def day(number: int) -> str:
    return f"2025-03-{number:02} 00:00:00"


def _intervals(object_id: int, number: int, now: datetime) -> list[dict]:
    """As the ledger keeps them, neighbours in one state as one; streams of every fifth number lack something."""
    late = ["done", "unverified", "stale", "empty"] if number % 5 == 0 else ["unverified"]
    ends = [day(each) for each in range(20, 28, 8 // len(late))]
    parts = [(None, day(1), "done"), (day(1), day(20), "done"), *zip(ends, [*ends[1:], THROUGH], late, strict=True)]
    facts = {"object_id": object_id, "updated_ts": now}
    return [
        {"after_value": after, "upto_value": upto, "state_cd": state, "row_count": 100 * place} | facts
        for place, (after, upto, state) in enumerate(parts)
    ]


def _position(object_id: int, sequence: int, load_id: str, run: dict) -> dict:
    position = Position(
        sequence=sequence,
        load_id=load_id,
        kind="watermark",
        source="shop",
        state={"cursor": ["updated_at"], "value": THROUGH, "window": None, "nulls": None},
        loaded_through=THROUGH,
    )
    return {
        "object_id": object_id,
        "revision": sequence,
        "sequence": sequence,
        "load_id": load_id,
        "position": position.to_json(),
        "snapshot": "4711",
        "verified": True,
        "recorded_ts": run["finished_ts"],
    }


def _plan(object_id: int, load_id: str, run: dict, number: int) -> dict:
    """What the pages read of a plan, and the columns of a usual table."""
    rows = run["row_count"]
    kind = {"kind": "integer", "bits": 64, "precision": 0, "scale": 0, "element": None}
    columns = [
        {"name": f"column_{place}", "type": kind, "nullable": True, "native": "bigint", "ident": None, "comment": ""}
        for place in range(12)
    ]
    changes = {
        "slices": [{"cursor": ["updated_at"], "after": "2025-03-27 00:00:00", "upto": THROUGH, "nulls": False}],
        "rows": rows,
        "reason": f"{rows:,} rows with updated_at up to {THROUGH}",
        "edge": {"upto": THROUGH, "held_by": [], "final": True},
    }
    added = {"kind": "added", "name": "column_11", "to": "bigint"}
    plan = {
        "load_id": load_id,
        "changes": changes,
        "position": {"schema": "ca6415047d797b2f", "loaded_through": THROUGH},
        "columns": {"columns": columns, "digest": "ca6415047d797b2f"},
        "write": {"mode": "merge_on_read", "reason": f"{rows:,} of 1,204,511 rows change", "prune": []},
        "schema_changes": [added] if number % 2 else [],
    }
    return {
        "load_id": load_id,
        "object_id": object_id,
        "run_id": run["run_id"],
        "plan": plan,
        "status_cd": "PUBLISHED",
        "created_ts": run["started_ts"] + timedelta(seconds=0.2),
        "finished_ts": run["finished_ts"],
    }


def _changes(object_id: int, run: dict) -> list[dict]:
    ended = "OK" if run["outcome"] in ("loaded", "unchanged") else "ERROR"
    said = [("OK", "RUNNING", run["started_ts"])]
    said += [("RUNNING", ended, run["finished_ts"])] if run["finished_ts"] else []
    return [
        {"object_id": object_id, "old_status": old, "new_status": new, "changed_ts": at, "changed_by": "etl@host:7"}
        for old, new, at in said
    ]


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
        "rows_read": moved if ended else None,
        "bytes_read": moved * 90 if ended else None,
        "seconds": took["total"] if ended else None,
    }


def _task(object_id: int, run: dict, chance: random.Random) -> dict:
    sides = f"tg1:{chance.randint(10, 9999)}:1a2b3c4d5e:6f708192a3:b4c5d6e7f8:091a2b3c4d"
    return {
        "source_object_id": object_id,
        "target_object_id": object_id,
        "run_id": run["run_id"],
        "status_cd": "OK",
        "start_ts": run["started_ts"] + timedelta(seconds=1),
        "finish_ts": run["started_ts"] + timedelta(seconds=9),
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
