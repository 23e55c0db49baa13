"""The commands `backfill STREAM` and `backfill list|pause|resume|cancel`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option
from typer.core import TyperGroup

from tidegate.cli.command import Exclude, Select, Stream, Streams
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, seconds
from tidegate.core.display import counted
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.core.backfill import Backfill

START = "start"


class StreamOrCommand(TyperGroup):
    """A group whose first argument is one of its commands, or the stream to `start` a backfill for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command; `backfill orders …` is `backfill start orders …`."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [START, *args]
        return super().resolve_command(ctx, args)


def start(
    shell: Shell,
    stream: Stream,
    begin: Annotated[str, Option("--from", metavar="VALUE", help="Start of the range, a cursor value (inclusive).")],
    end: Annotated[str, Option("--to", metavar="VALUE", help="End of the range, a cursor value (exclusive).")],
    chunk: Annotated[
        str | None, Option(metavar="7d|ROWS", help="Size of a chunk, as a duration or a number of rows.")
    ] = None,
    parallel: Annotated[int, Option(min=1, metavar="N", help="Chunks to read in parallel, in one commit.")] = 1,
    rate: Annotated[
        int | None, Option(min=1, metavar="ROWS", help="Rows to read per second at most, on average.")
    ] = None,
) -> int:
    """Reloads a range of the source."""
    from tidegate.engine.backfill.backfill import Request  # noqa: PLC0415 - the other commands do not need it

    request = Request(begin=begin, end=end, chunk=_chunk(chunk), parallel=parallel, rate=rate)
    with shell.project() as project, _progress(shell) as on_progress:
        done = project.backfills.start(stream, request, **on_progress)
    return _tell(shell, done)


def resume(shell: Shell, stream: Stream) -> int:
    """Resumes a backfill: retries failed chunks and loads the remaining ones."""
    with shell.project() as project, _progress(shell) as on_progress:
        done = project.backfills.resume(stream, **on_progress)
    return _tell(shell, done)


def pause(shell: Shell, stream: Stream) -> int:
    """Pauses a backfill after its current commit."""
    with shell.project() as project:
        return _tell(shell, project.backfills.pause(stream))


def cancel(shell: Shell, stream: Stream) -> int:
    """Cancels a backfill after its current commit; loaded rows stay."""
    with shell.project() as project:
        return _tell(shell, project.backfills.cancel(stream))


def show(shell: Shell, streams: Streams = None, select: Select = None, exclude: Exclude = None) -> int:
    """Lists backfills, newest first."""
    with shell.project() as project:
        found = project.backfills.list(
            *(stream.name for stream in project.streams(*(streams or ()), select=select, exclude=exclude))
        )
    if shell.as_json:
        shell.document({"backfills": [each.to_dict() for each in found]})
        return 0
    columns = ("stream", "from", "to", "status", "chunks", "failed", "rows", "time left")
    shell.table(Table(columns=columns, rows=tuple(_row(each) for each in found)), none="no backfills")
    return 0


def _chunk(text: str | None) -> timedelta | int | None:
    from tidegate.core.durations import duration  # noqa: PLC0415 - few calls state one

    if text is None or text.isdigit():
        return None if text is None else int(text)
    try:
        return duration(text)
    except ValueError as error:
        raise ConfigError(
            f"--chunk {text!r} {error}",
            hint="Use a duration, such as --chunk 7d, or a number of rows, such as --chunk 100000.",
        ) from error


@contextmanager
def _progress(shell: Shell) -> Iterator[dict[str, Any]]:
    """What tells of the stages of each chunk, and after each of how many are left."""
    from tidegate.cli.progress import progress  # noqa: PLC0415 - it imports the engine

    with progress(shell, with_json=False) as listener:
        yield {"on_event": listener, "on_progress": lambda found: _tell_chunks(shell, found)}


def _tell_chunks(shell: Shell, found: Backfill) -> None:
    document = found.to_dict()
    left = f", about {seconds(found.seconds_left)} left" if found.seconds_left else ""
    shell.say(
        f"{found.stream}: {document['chunks_done']} of {counted(document['chunks_total'], 'chunk')}, "
        f"{counted(found.rows_done, 'row')}{left}"
    )


def _tell(shell: Shell, found: Backfill) -> int:
    document = found.to_dict()
    exit_code = 1 if document["chunks_failed"] and found.status == "FAILED" else 0
    if shell.as_json:
        shell.document({**document, "exit_code": exit_code})
        return exit_code
    if not found.chunks:
        shell.result(f"{found.stream}: the source has no rows from {found.begin} to {found.end}; nothing was loaded")
        return exit_code
    shell.result(
        f"{found.stream}: backfill from {found.begin} to {found.end} is {found.status.lower()}: "
        f"{document['chunks_done']} of {counted(document['chunks_total'], 'chunk')}, {counted(found.rows_done, 'row')}"
    )
    for chunk in found.chunks:
        if chunk.status == "FAILED":
            code, _, message = (chunk.error or "").partition(": ")
            about = f"chunk {chunk.number} ({chunk.after or '-inf'}, {chunk.upto}]: {message}"
            shell.problem(code=code, message=about, hint=f"Try again: `tidegate backfill resume {found.stream}`.")
    return exit_code


def _row(found: Backfill) -> tuple[str, ...]:
    document = found.to_dict()
    chunks = f"{document['chunks_done']} of {document['chunks_total']}"
    left = seconds(found.seconds_left) if found.waiting else ""
    status = str(found.status).lower()
    return (
        found.stream,
        found.begin,
        found.end,
        status,
        chunks,
        count(document["chunks_failed"]),
        count(found.rows_done),
        left,
    )
