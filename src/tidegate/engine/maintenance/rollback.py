"""Rolls a table back to an earlier version, rows and position together, and updates the registry.

Refuses a version whose files are incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tidegate.core.display import Shown
from tidegate.core.policies.maintenance import Version
from tidegate.core.ports.format import TimeTravel
from tidegate.core.position import Position
from tidegate.engine import hooks
from tidegate.engine.context import RunContext
from tidegate.engine.recovery.recovery import unproven
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, VersionGone
from tidegate.registry.values import PlanStatus

SHOWN = 5
TASK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(Shown):
    """The result of a rollback.

    Args:
        version: the restored version.
        snapshot: what is visible now.
        position: the stream's position in the table now; the next run continues from it.
    """

    stream: str
    version: Version
    snapshot: str | None
    position: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        made_at = self.version.made_at.isoformat()
        return {**asdict(self), "version": {**asdict(self.version), "made_at": made_at}}


def versions(stream: Stream) -> Sequence[Version]:
    """The versions of the stream's table that are kept, newest first, without Spark."""
    return tuple(reversed(time_travel(stream).versions(stream.target, stream.uid)))


def choose(stream: Stream, found: Sequence[Version], to: str) -> Version:
    """The requested version: by id, or the newest one at a given time.

    Args:
        found: newest first.

    Raises:
        ConfigError: neither a version nor a time.
        VersionGone: it is no longer kept or complete; the message lists versions that can be read.
    """
    named = next((each for each in found if each.id == to), None)
    moment = None if named or to.isdigit() else _moment(to)
    if moment is not None:
        named = next((each for each in found if each.made_at <= moment), None)
    if named is None or not named.readable:
        why = "is not kept" if named is None else "is no longer complete: some of its files were deleted"
        what = f"the version of {to}" if moment else f"version {to}"
        raise VersionGone(f"stream {stream.name!r}: {what} {why}; {_readable(found)}")
    if named.load is None:
        raise ConfigError(
            f"stream {stream.name!r}: version {named.id} has no load of this stream, so there is no position to "
            f"continue from; {_readable(found)}",
            hint=f"`tidegate history {stream.name} --versions` lists them; `tidegate run {stream.name} --full-refresh "
            f"--yes` reloads the whole table.",
        )
    return named


def rollback(stream: Stream, context: RunContext, to: str) -> RolledBack:
    """Rolls the table back to that version, and the stream to its position then; recorded.

    Rows and position go back in one commit of the table; the registry follows. If it cannot, a rollback to the same
    version again brings it up to date.

    Raises:
        VersionGone: it is no longer kept; nothing was changed.
        LeaseHeld: a load is running.
        CommitConflict: another writer committed in the meantime; nothing was changed.
    """
    registry = context.registry
    registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
    with registry.lease(stream.uid) as lease:
        version = choose(stream, versions(stream), to)
        with registry.task(stream.uid, TASK, run_id=context.run_id) as payload:
            payload["version"] = version.id
            if not version.current:
                with context.session(small=True) as session:
                    lease.check()
                    time_travel(stream).rollback(session, stream.target, version.id)
            table = stream.format.state(stream.target, stream.uid)
            if table.position is None or table.position.sequence != version.load:
                raise VersionGone(f"the table of stream {stream.name!r} does not show version {version.id} as expected")
            for saved in registry.open_plans(stream.uid):
                registry.finish_plan(saved.load_id, PlanStatus.DROPPED)
            registry.set_position(
                stream.uid,
                table.position,
                snapshot=table.position_snapshot,
                table_uuid=table.uuid,
                reason=f"rollback to version {version.id}, load {version.load}",
                verified=_verified(stream, context, table.position),
            )
            payload["load"] = version.load
    hooks.after(stream, context)
    return RolledBack(stream=stream.name, version=version, snapshot=table.snapshot, position=table.position.to_dict())


def time_travel(stream: Stream) -> TimeTravel:
    """The part of the stream's format that rolls tables back. Raises ConfigError: it has none."""
    found = stream.format.time_travel
    if found is None:
        raise ConfigError(
            f"the lake of stream {stream.name!r} has a format whose tables keep no versions",
            hint=f"`tidegate state rewind {stream.name} --to SEQUENCE` sets the position back and keeps the rows.",
        )
    return found


def _verified(stream: Stream, context: RunContext, position: Position) -> bool | None:
    """Whether the load that the stream goes back to was verified, as the registry saw it then."""
    known = context.registry.positions(stream.uid, limit=100_000)
    seen = {each.verified for each in known if each.position.load_id == position.load_id}
    return True if True in seen else unproven(stream)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--to {text!r} is neither a version nor a time",
            hint="Use a version that `tidegate history STREAM --versions` lists, or a time such as "
            "2025-03-01T09:00:00Z.",
        ) from error
    if moment.tzinfo is None:
        whole = moment.isoformat(timespec="seconds")
        raise ConfigError(f"--to {text!r} has no time zone", hint=f"Write --to {whole}Z if it is a time in UTC.")
    return moment


def _readable(found: Sequence[Version]) -> str:
    """What people can go back to."""
    whole = [each for each in found if each.readable and each.load is not None]
    if not whole:
        return "there is no version to roll back to"
    listed = ", ".join(f"{each.id} of {each.made_at:%Y-%m-%d %H:%M:%S}Z" for each in whole[:SHOWN])
    more = f" and {len(whole) - SHOWN} more" if len(whole) > SHOWN else ""
    return f"the versions that can be read are {listed}{more}"
