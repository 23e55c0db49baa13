"""What the run of the platform tells: numbered steps, the command of each, and what it printed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trino.dbapi import Connection

from support.trino import TrinoServer

T = TypeVar("T")


class StepFailed(Exception):
    """A command did not do what the step shows."""


@dataclass(slots=True, kw_only=True)
class Teller:
    """Prints the steps, and runs their commands in the project's folder."""

    folder: Path
    began: float = field(default_factory=time.monotonic)
    number: int = 0

    def step(self, title: str, why: str = "") -> None:
        """A new step."""
        self.number += 1
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"\n{self.number}. {title}   [{minutes}:{seconds:02}]", flush=True)
        if why:
            print(f"   {why}", flush=True)

    def say(self, *lines: str) -> None:
        """What was seen."""
        for line in lines:
            print(f"   {line}", flush=True)

    def run(self, command: str, *, show: str = ".", last: int = 12, code: int = 0) -> str:
        """Runs a command of the shell, prints it with its last lines, and returns all that it printed.

        Args:
            show: a pattern; only lines in which it is found are printed.
            code: the exit code that it has to end with.

        Raises:
            StepFailed: it ended otherwise.
        """
        print(f"   $ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=400, check=False
        )
        printed = done.stdout + done.stderr
        if done.returncode != code:
            raise StepFailed(f"{command} ended with {done.returncode}:\n{printed[-4000:]}")
        self._print([line for line in printed.splitlines() if line.strip() and re.search(show, line)][-last:])
        return printed

    def query(self, server: TrinoServer, statement: str) -> list[Sequence[object]]:
        """Runs a query of Trino and prints its rows."""
        print(f"   trino> {statement}", flush=True)
        with Connection(host="127.0.0.1", port=server.port, user="analyst") as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows: list[Sequence[object]] = cursor.fetchall()
        self._print([" | ".join(map(_text, row)) for row in rows[:12]])
        return rows

    def until(self, what: str, found: Callable[[], T], seconds: float = 240) -> T:
        """Waits until something is found, and returns it.

        Raises:
            StepFailed: it took too long.
        """
        deadline = time.monotonic() + seconds
        while not (value := found()):
            if time.monotonic() > deadline:
                raise StepFailed(f"after {seconds:.0f} seconds there was still no {what}")
            time.sleep(1)
        return value

    def _print(self, lines: Sequence[str]) -> None:
        for line in lines:
            print(f"     {line[:150].rstrip()}", flush=True)


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
