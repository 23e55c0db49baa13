"""Runs the program `tidegate` for a task, and reads the JSON document that it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidegate.cli.documents import Document, document_of, may_pass
from tidegate.errors import TidegateError, error_of

Tell = Callable[[str], None]


@dataclass(kw_only=True)
class Program:
    """The program, for one project.

    Args:
        project_dir: the project's folder or file.
        profile: of the project, such as `prod`.
        executable: where `tidegate` is installed; that of this interpreter unless given.
        environment: variables that are added to the task's.
    """

    project_dir: str
    profile: str | None = None
    executable: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)

    def arguments(self, *words: str) -> list[str]:
        """Those of a command on this project, after the program's name."""
        profile = ["--env", self.profile] if self.profile else []
        return [*words, "--json", "--project", self.project_dir, *profile]

    def ask(self, *words: str, tell: Tell) -> Document:
        """The document that a command prints.

        Args:
            tell: takes each line that it says meanwhile.

        Raises:
            AirflowException: it did nothing, and another try may succeed.
            AirflowFailException: it did nothing, and a person has to do something first.
        """
        program = [self.executable] if self.executable else [sys.executable, "-m", "tidegate"]
        remarks: list[str] = []
        with subprocess.Popen(  # noqa: S603 - the program, and no shell
            [*program, *self.arguments(*words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        ) as self._process:
            teller = threading.Thread(target=_pass_on, args=(self._process.stderr, remarks, tell), daemon=True)
            teller.start()
            printed = self._process.stdout.read() if self._process.stdout else ""
            teller.join()
        return read(printed, "\n".join(remarks))

    def interrupt(self) -> None:
        """Ends the command as Ctrl-C does: nothing is left half done."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()


def read(printed: str, remarks: str) -> Document:
    """The document that a command printed. Raises as `Program.ask`."""
    try:
        return document_of(printed, remarks)
    except TidegateError as error:
        fail([error])


def errors_in(streams: Sequence[Mapping[str, Any]]) -> list[TidegateError]:
    """The errors of the streams in a document."""
    found = [each["error"] for each in streams if each["error"]]
    return [error_of(each["code"], each["message"], each["hint"]) for each in found]


def fail(errors: Sequence[TidegateError]) -> NoReturn:
    """Fails the task: for good if a person has to do something, else so that Airflow tries again."""
    text = "\n".join(f"{each.code}: {each.message}\n  hint: {each.hint}" for each in errors)
    kind = AirflowException if all(map(may_pass, errors)) else AirflowFailException
    raise kind(text) from errors[0]


def _pass_on(lines: Any, remarks: list[str], tell: Tell) -> None:
    for line in lines:
        remarks.append(line)
        tell(line.rstrip("\n"))
