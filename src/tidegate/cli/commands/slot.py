"""The commands `slot list|drop`, for the replication slots of a project's streams.

Never drops a slot that no stream of the project uses, or without confirmation.
"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from tidegate.cli.command import Exclude, Select, Streams
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, size, yes
from tidegate.errors import ConfigError


def show(shell: Shell, streams: Streams = None, select: Select = None, exclude: Exclude = None) -> int:
    """Lists the replication slots of the streams, and how much log the server retains for each."""
    from tidegate.engine import replication_slot  # noqa: PLC0415 - other commands do not need it

    with shell.project() as project:
        found = replication_slot.slots(project.streams(*(streams or ()), select=select, exclude=exclude))
    if shell.as_json:
        shell.document({"slots": [one.to_dict() for one in found]})
        return 0
    columns = ("slot", "stream", "connection", "exists", "active", "status", "keeps", "behind")
    rows = tuple(
        (
            one.slot.name,
            one.stream,
            one.slot.where,
            yes(value=one.slot.exists),
            yes(value=one.slot.active),
            one.slot.status or "-",
            size(one.slot.bytes),
            size(one.slot.behind),
        )
        for one in found
    )
    shell.table(Table(columns=columns, rows=rows), none="none of these streams reads a replication slot")
    for one in found:
        if one.slot.warning:
            shell.result(f"note: {one.stream}: {one.slot.warning}")
    return 0


def drop(
    shell: Shell,
    slot: Annotated[str, Argument(metavar="SLOT", help="Name of the slot; see `slot list`.")],
    yes: Annotated[
        bool, Option("--yes", help="Confirm the drop; the stream then needs `tidegate resync STREAM`.")
    ] = False,
) -> int:
    """Drops the replication slot of a stream, so that the server no longer retains log for it."""
    from tidegate.engine import replication_slot  # noqa: PLC0415 - as above

    if not yes:
        raise ConfigError(
            f"without the slot {slot} its stream needs `tidegate resync STREAM`",
            hint=f"`tidegate slot drop {slot} --yes`.",
        )
    with shell.project() as project:
        dropped = replication_slot.drop(project.streams(), slot)
    if shell.as_json:
        shell.document({"dropped": dropped.to_dict()})
    else:
        shell.result(f"dropped slot {slot} of stream {dropped.stream}")
    return 0
