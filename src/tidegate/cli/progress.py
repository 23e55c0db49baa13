"""Shows the progress of a run on stderr: live on a terminal, plain lines in a pipe."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.cli.logs import LogFormat
from tidegate.cli.shell import Shell
from tidegate.engine.events import STAGES, Event, Listener, Moment, ignore

log = logging.getLogger("tidegate")


@contextmanager
def progress(shell: Shell) -> Iterator[Listener]:
    """A listener that shows a run's events in the form that suits stderr."""
    if shell.quiet:
        yield ignore
    elif shell.log_format is LogFormat.JSON:
        yield _logged
    elif sys.stderr.isatty():
        with _live(shell.redact) as listener:
            yield listener
    else:
        yield lambda event: _line(event, shell.redact)


def _logged(event: Event) -> None:
    values = {"stream": event.stream, "stage": str(event.stage), "moment": str(event.moment)}
    log.info("stage", extra={**values, "seconds": round(event.seconds, 3), "detail": event.detail})


def _line(event: Event, redact: Callable[[str], str]) -> None:
    if event.moment is Moment.DONE:
        detail = f"  {event.detail}" if event.detail else ""
        sys.stderr.write(redact(f"{event.stream}: {event.stage} {event.seconds:.2f} s{detail}") + "\n")
        sys.stderr.flush()


@contextmanager
def _live(redact: Callable[[str], str]) -> Iterator[Listener]:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs Rich
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=14), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:

        def listen(event: Event) -> None:
            task = tasks.get(event.stream)
            if task is None:
                task = tasks[event.stream] = bars.add_task(escape(event.stream), total=len(STAGES))
            text = escape(redact(f"{event.stream}  {event.stage}  {event.detail}".rstrip()))
            done = STAGES.index(event.stage) + (event.moment is Moment.DONE)
            bars.update(task, description=text, completed=done)

        yield listen
