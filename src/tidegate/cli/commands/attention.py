"""The commands `pause` and `resume`."""

from __future__ import annotations

from tidegate.cli.command import Stream
from tidegate.cli.shell import Shell


def pause(shell: Shell, stream: Stream) -> int:
    """Takes a stream off its schedule: `watch` leaves it out, `run` by name still loads it.

    The registry records who did it and when.
    """
    with shell.project() as project:
        project.attention.pause(stream)
    return _report(shell, stream, paused=True)


def resume(shell: Shell, stream: Stream) -> int:
    """Puts a paused stream back on its schedule."""
    with shell.project() as project:
        project.attention.resume(stream)
    return _report(shell, stream, paused=False)


def _report(shell: Shell, stream: str, *, paused: bool) -> int:
    if shell.as_json:
        shell.document({"stream": stream, "paused": paused})
    else:
        shell.result(f"{stream}: paused" if paused else f"{stream}: back on its schedule")
    return 0
