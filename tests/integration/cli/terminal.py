"""The command line as a user types it, and what every refusal has to look like."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.cli.app import main

BROKEN = ("Traceback", "Exception in thread", "\tat ", "py4j.")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command said, and how it ended."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one error of a JSON document."""
        found = self.document
        return found["error"] if "error" in found else found["streams"][0]["error"]

    @property
    def everything(self) -> str:
        """Both streams."""
        return self.out + self.err

    def refuses(self, code: str, exit_code: int, *wanted: str) -> None:
        """Exactly one error with this code, a hint, no stack; `wanted` stands in the error or its hint."""
        assert self.exit_code == exit_code, self.everything
        assert not any(mark in self.everything for mark in BROKEN), self.everything
        lines = self.err.splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith("error[")]
        assert len(errors) == 1, self.everything
        told, hint = lines[errors[0] : errors[0] + 2]
        assert told.startswith(f"error[{code}]: "), told
        assert hint.startswith("  hint: "), hint
        assert "`" in hint or "://" in hint or "--" in hint, f"the hint names neither a command nor a key: {hint}"
        assert len(told) < 500, told
        for text in wanted:
            assert text in told + hint, f"{text!r} is not in {told}{hint}"


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """Commands on one project: in this process, or in one of their own."""

    folder: Path
    capfd: Any
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str) -> Said:
        """Here: Spark, if there is one, is used and not started."""
        self.capfd.readouterr()
        exit_code = main([*words, "--project", str(self.folder)])
        out, err = self.capfd.readouterr()
        return Said(exit_code=exit_code, out=out, err=err)

    def start(self, *words: str, prefix: tuple[str, ...] = (), **environment: str) -> Process:
        """In a process group of its own, as a terminal does it."""
        command = [*prefix, sys.executable, "-m", "tidegate", *words, "--project", str(self.folder)]
        return Process(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def process(self, *words: str, prefix: tuple[str, ...] = (), **environment: str) -> Said:
        """In a process of its own, to its end."""
        return self.start(*words, prefix=prefix, **environment).end()


class Process(subprocess.Popen):
    """A command at work."""

    seen = ""

    def reach(self, text: str) -> None:
        """Waits for a line on stderr that holds the text."""
        for line in self.stderr:
            self.seen += line
            if text in line:
                return
        raise AssertionError(f"never said {text!r}: {self.seen}")

    def end(self, timeout: float = 120) -> Said:
        """How it ended; its group is ended with it."""
        try:
            out, err = self.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self.communicate()
            raise
        return Said(exit_code=self.returncode, out=out, err=self.seen + err)

    @property
    def java(self) -> int:
        """The JVM below this process."""
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = status.read_text(errors="replace").rpartition(")")
            except OSError:
                continue
            if int(rest.split()[2]) == self.pid and "(java" in name:
                return int(status.parent.name)
        raise AssertionError("there is no JVM")
