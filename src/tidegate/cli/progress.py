"""Shows the progress of a run on stderr: live on a terminal, plain lines in a pipe."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidegate.cli.logs import LogFormat
from tidegate.cli.shell import Shell
from tidegate.cli.tables import COLOURS
from tidegate.core.display import counted
from tidegate.core.visible import visible_line
from tidegate.engine.events import STAGES, Event, Listener, Moment, ignore
from tidegate.engine.run_log import Seldom

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tidegate.core.outcome import Outcome

log = logging.getLogger("tidegate")
BOUNDARY = (Moment.START, Moment.PUBLISHED, Moment.DONE)


@contextmanager
def progress(shell: Shell, *, with_json: bool = True) -> Iterator[Listener]:
    """A listener that shows what happens to streams, in the form that suits stderr.

    Args:
        with_json: also where the result is a JSON document.
    """

    def clean(text: str) -> str:
        return visible_line(shell.redact(text))

    if shell.quiet or (shell.as_json and not with_json):
        yield ignore
    elif shell.log_format is LogFormat.JSON:
        yield _Records()
    elif sys.stderr.isatty():
        with _live(clean) as listener:
            yield listener
    else:
        yield _Lines(clean)


class _Records:
    """A record of the log for each event."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def __call__(self, event: Event) -> None:
        if not self._seldom.passes(event):
            return
        values: dict[str, Any] = {"stream": event.stream, "stage": str(event.stage), "moment": str(event.moment)}
        values |= {"seconds": round(event.seconds, 3), "detail": event.detail}
        if event.rows is not None:
            values["rows"] = event.rows
        if event.moment in (Moment.BEGUN, Moment.ENDED):
            values |= {"number": event.place[0], "of": event.place[1]}
        if event.outcome is not None:
            values["outcome"] = str(event.outcome.outcome)
        log.info("stage" if event.moment in BOUNDARY else "stream", extra=values)


class _Lines:
    """A line for each event that a person who reads the log later wants to see."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._seldom = Seldom()

    def __call__(self, event: Event) -> None:
        if not self._seldom.passes(event):
            return
        match event.moment:
            case Moment.BEGUN:
                text = "stream {} of {}".format(*event.place) if event.place[1] > 1 else ""
            case Moment.WORKING:
                text = f"{event.stage} in progress: {_at_work(event)}"
            case Moment.DONE:
                text = f"{event.stage} {event.seconds:.2f} s" + (f"  {event.detail}" if event.detail else "")
            case Moment.RETRY:
                text = f"retry in {event.seconds:.1f} s: {event.detail}"
            case Moment.ENDED:
                text = _ended(event.outcome) if event.outcome is not None else event.detail
            case _:
                text = ""
        if text:
            sys.stderr.write(self._redact(f"{event.stream}: {text}") + "\n")
            sys.stderr.flush()


def _at_work(event: Event) -> str:
    """What the stage is at; of rows that are on their way about how many have passed, by the tasks that are done."""
    if not event.rows or event.share is None:
        return event.detail
    passed = round(event.rows * event.share)
    if not passed or not event.seconds:
        return f"{counted(event.rows, 'row')}, {event.detail}"
    return f"~{passed:,} of {event.rows:,} rows, ~{passed / event.seconds:,.0f} rows/s, {event.detail}"


def _ended(outcome: Outcome) -> str:
    """How the stream ended, in a few words."""
    words = [f"{outcome.outcome} ({outcome.error.code})" if outcome.error else str(outcome.outcome)]
    for name in ("inserted", "updated", "deleted", "quarantined", "warned"):
        rows: int = getattr(outcome, f"rows_{name}")
        words += [f"{rows:,} {name}"] if rows else []
    words.append(f"{outcome.seconds.get('total', 0.0):.1f} s")
    moving = outcome.seconds.get("read_write", 0.0)
    if outcome.rows_read and moving:
        words.append(f"{outcome.rows_read / moving:,.0f} rows/s")
    return ", ".join(words)


@contextmanager
def _live(redact: Callable[[str], str]) -> Iterator[Listener]:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs Rich
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415 - as above

    detail = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=7),
        TextColumn("{task.fields[told]}", markup=False, table_column=detail),
        TimeElapsedColumn(),
    )
    console = Console(file=sys.stderr, highlight=False)
    with Progress(*columns, console=console, transient=True, expand=True) as bars:
        yield _Live(bars, redact)


class _Live:
    """A line that moves for each stream at work; one that stays for each that has ended, if there are several."""

    def __init__(self, bars: Progress, redact: Callable[[str], str]) -> None:
        self._bars = bars
        self._redact = redact
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        if event.moment is Moment.BACKGROUND:
            return
        number, of = event.place
        name = event.stream if of == 1 else f"[{number}/{of}] {event.stream}"
        if event.moment is Moment.ENDED:
            self._end(event, name)
            return
        if event.stream not in self._tasks:
            self._tasks[event.stream] = self._bars.add_task(self._redact(name), total=len(STAGES), told="")
        if event.moment is Moment.RETRY:
            self._say(f"{name}  retry in {event.seconds:.1f} s: {event.detail}", "yellow")
        texts = {Moment.BEGUN: "", Moment.WORKING: f"{event.stage}  {_at_work(event)}"}
        text = texts.get(event.moment, f"{event.stage}  {event.detail}".rstrip())
        done = STAGES.index(event.stage) + (event.moment is Moment.DONE)
        self._bars.update(self._tasks[event.stream], completed=done, told=self._redact(text), refresh=True)

    def _end(self, event: Event, name: str) -> None:
        task = self._tasks.pop(event.stream, None)
        if task is not None:
            self._bars.remove_task(task)
        text = _ended(event.outcome) if event.outcome is not None else event.detail
        if event.place[1] > 1 and text:
            self._say(f"{name}  {text}", COLOURS.get(re.split(r"[ ,]", text)[0], ""))

    def _say(self, text: str, style: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - only a terminal needs Rich

        self._bars.console.print(Text(self._redact(text), style=style))
