"""The commands `state show|set|adopt|repair|rewind`, which show positions and change them by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tidegate.cli.command import Exclude, Select, Stream, Streams
from tidegate.cli.shell import Shell
from tidegate.core.display import counted

if TYPE_CHECKING:
    from tidegate.engine.positions import StateView


def show(shell: Shell, stream: Stream) -> int:
    """Shows the position in the table and in the registry."""
    with shell.project() as project:
        return _tell(shell, project.state.show(stream))


def put(
    shell: Shell,
    stream: Stream,
    value: Annotated[
        str, Argument(metavar="VALUE", help="A value of the cursor column; the next run continues from it.")
    ],
) -> int:
    """Sets the position to a value of the cursor column."""
    with shell.project() as project:
        return _tell(shell, project.state.set(stream, value))


def adopt(
    shell: Shell,
    stream: Stream,
    at: Annotated[
        str | None, Option(metavar="VALUE", help="The cursor value; by default the greatest in the table.")
    ] = None,
) -> int:
    """Adopts a table that has rows but no position."""
    with shell.project() as project:
        return _tell(shell, project.state.adopt(stream, at))


def repair(shell: Shell, streams: Streams = None, select: Select = None, exclude: Exclude = None) -> int:
    """Resets the registry to the positions in the tables."""
    with shell.project() as project:
        views = project.state.repair(
            *(stream.name for stream in project.streams(*(streams or ()), select=select, exclude=exclude))
        )
    if shell.as_json:
        shell.document({"streams": [view.to_dict() for view in views]})
        return 0
    for view in views:
        _tell(shell, view)
    return 0


def rewind(
    shell: Shell,
    stream: Stream,
    to: Annotated[int, Option(metavar="SEQUENCE", help="The load to go back to; `history --versions` lists loads.")],
) -> int:
    """Sets the position back to an earlier load; rows stay and are read again."""
    with shell.project() as project:
        return _tell(shell, project.state.rewind(stream, to))


def _rows(view: StateView) -> str:
    return "- rows" if view.table_rows is None else counted(view.table_rows, "row")


def _tell(shell: Shell, view: StateView) -> int:
    if shell.as_json:
        shell.document(view.to_dict())
        return 0
    rows = _rows(view) if view.table_exists else "does not exist yet"
    shell.result(f"{view.stream} (uid {view.uid}) -> {view.target}, {rows}")
    shell.result(f"  table:    {_position(view.table)}")
    shell.result(f"  registry: {_position(view.registry)}")
    if not view.agree:
        shell.result(
            f"  they differ; `tidegate state repair {view.stream}` resets the registry to the table's position"
        )
    return 0


def _position(values: Any) -> str:
    if not values:
        return "no position"
    through = values.get("loaded_through") or "no cursor"
    return f"load {values['sequence']}, through {through}, {values['kind']} {json.dumps(values['state'])}"
