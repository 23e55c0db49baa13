"""Detects a PostgreSQL server that was restored from a copy taken before a moment at which it was last seen.

Updates, deletes, vacuum and restarts are never mistaken for a restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core.ports.dialect import Relation, RestoreCheck
from tidegate.dialects.postgresql import catalog

MICROS = "(extract(epoch FROM {}) * 1000000)::bigint"
STARTED = MICROS.format("pg_postmaster_start_time()")
# Every transaction below the first of these had ended when the snapshot was taken.
WITNESS = f"""
SELECT txid_snapshot_xmin(txid_current_snapshot()), {STARTED}, {MICROS.format("clock_timestamp()")},
       pg_is_in_recovery()
"""
# Where the server began to write: after a crash or from a copy of a running server it has replayed up to there. Of a
# server that was shut down only the newest checkpoint is left.
NOW = f"""
SELECT txid_snapshot_xmin(txid_current_snapshot()), {STARTED}, pg_is_in_recovery(),
       (pg_last_wal_replay_lsn() - '0/0')::text, (checkpoint_lsn - '0/0')::text, {MICROS.format("checkpoint_time")}
FROM pg_control_checkpoint()
"""
STEP = 60_000_000  # microseconds by which a clock may have been set back without anything restored
HALF = 2**31  # transactions after which the 32 bits of a row's own number say nothing of its age


def witness(session: catalog.DescribingSession) -> dict[str, Any]:
    """The oldest transaction that may still be open, the server's start, and the time; of a standby nothing."""
    ((xid, started, at, standby),) = session.rows(WITNESS)
    return {} if standby else {"xid": xid, "started": started, "at": at}


def check_restore(session: catalog.DescribingSession, before: Mapping[str, Any], clock: int | None) -> RestoreCheck:
    """A server that was not started since goes on; of another one every counter has to fit."""
    ((xid, started, standby, replayed, checkpoint, checkpoint_at),) = session.rows(NOW)
    if started == before["started"] or standby:
        return RestoreCheck(restarted=False)
    reason = None
    if xid < before["xid"]:
        reason = f"its next transaction number was {before['xid']} and is {xid} now"
    elif clock is not None and replayed is not None and int(replayed) < clock:
        reason = f"it was started from a copy that ends at {replayed} of its log, although it had been seen at {clock}"
    elif clock is not None and int(checkpoint) < clock and checkpoint_at > before["at"] + STEP:
        reason = (
            f"its newest checkpoint is at {checkpoint} of its log, and was written after the server had been seen at "
            f"{clock}"
        )
    return RestoreCheck(restarted=True, reason=reason)


def older_than(
    session: catalog.DescribingSession, before: Mapping[str, Any], relation: Relation, condition: str
) -> str | None:
    """Rows above every value that there was, by transactions that had ended: their numbers were given out again."""
    if not relation.parts or not catalog.is_table(session, relation):
        return None
    number = before["xid"] % 2**32
    rows = session.rows(
        f"SELECT 1 FROM {relation.sql} WHERE {condition} AND age(xmin) > age('{number}'::xid) "
        f"AND xmin::text::bigint > 2 AND txid_snapshot_xmin(txid_current_snapshot()) - {before['xid']} < {HALF} LIMIT 1"
    )
    if not rows:
        return None
    return f"{relation.label} has rows newer than any seen before, from transactions that had already ended by then"
