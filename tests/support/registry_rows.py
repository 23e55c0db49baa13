"""Rows of a registry as runs leave them: what a run, its plan, position, tasks and log look like."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from tidegate.core.position import Position

SECRET = "Tr0ub4dor-and-3"
THROUGH = "2025-03-28 00:00:00"


def name(number: int) -> str:
    return f"orders_{number:03}"


def upkeep_rows(object_id: int, number: int, now: datetime) -> list[dict]:
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


def log_row(run: dict) -> dict:
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


def interval_rows(object_id: int, number: int, now: datetime) -> list[dict]:
    """As the ledger keeps them, neighbours in one state as one; streams of every fifth number lack something."""
    late = ["done", "unverified", "stale", "empty"] if number % 5 == 0 else ["unverified"]
    ends = [day(each) for each in range(20, 28, 8 // len(late))]
    parts = [(None, day(1), "done"), (day(1), day(20), "done"), *zip(ends, [*ends[1:], THROUGH], late, strict=True)]
    facts = {"object_id": object_id, "updated_ts": now}
    return [
        {"after_value": after, "upto_value": upto, "state_cd": state, "row_count": 100 * place} | facts
        for place, (after, upto, state) in enumerate(parts)
    ]


def position_row(object_id: int, sequence: int, load_id: str, run: dict) -> dict:
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


def plan_row(object_id: int, load_id: str, run: dict, number: int) -> dict:
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


def change_rows(object_id: int, run: dict) -> list[dict]:
    ended = "OK" if run["outcome"] in ("loaded", "unchanged") else "ERROR"
    said = [("OK", "RUNNING", run["started_ts"])]
    said += [("RUNNING", ended, run["finished_ts"])] if run["finished_ts"] else []
    return [
        {"object_id": object_id, "old_status": old, "new_status": new, "changed_ts": at, "changed_by": "etl@host:7"}
        for old, new, at in said
    ]


def run_row(object_id: int, run_id: str, at: datetime, outcome: str, number: int, chance: random.Random) -> dict:
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


def task_row(object_id: int, run: dict, chance: random.Random) -> dict:
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
