"""Runs Tidegate's commands for an asset: through the service of the project where one runs, else in this process.

Either way the answer is the command's JSON document.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate import Project
from tidegate.cli.documents import Document, document_of
from tidegate.engine.backfill.backfill import Request
from tidegate.engine.events import Event, Moment
from tidegate.service.place import Place
from tidegate_dagster.project import TidegateProject

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The commands of one project that is open.

    Args:
        place: the project, for the service.
        project: the same, opened, for this process; it is not closed here.
        local: never use the service.
        tell: takes lines about the progress.
    """

    place: TidegateProject
    project: Project
    tell: Tell
    local: bool = False

    def run(self, *names: str, options: Mapping[str, Any], parallel: int = 1) -> Document:
        """Loads streams: the document of `run --json`.

        Args:
            options: of the strategies, for this run.

        Raises:
            TidegateError: nothing ran.
        """
        if self._served():
            given = [word for name, value in options.items() for word in ("--set", f"{name}={json.dumps(value)}")]
            return self._command("run", *names, "--parallel", str(parallel), *given)
        report = self.project.run(*names, options=dict(options), parallel=parallel, on_event=self._event)
        return _printed(report.to_dict())

    def backfill(self, name: str, begin: str, end: str) -> Document:
        """Loads a range of a stream's source again: the document of `backfill --json`.

        Raises:
            TidegateError: nothing was loaded.
        """
        if self._served():
            return self._command("backfill", name, "--from", begin, "--to", end)
        request = Request(begin=begin, end=end)
        return _printed(self.project.backfills.start(name, request, on_event=self._event).to_dict())

    def resume(self, name: str) -> Document:
        """Goes on with the stream's open backfill: the document of `backfill --json`."""
        if self._served():
            return self._command("backfill", "resume", name)
        return _printed(self.project.backfills.resume(name, on_event=self._event).to_dict())

    def verify(self, name: str) -> Document:
        """Compares a whole table with its source: the stream's entry of `verify --json`."""
        if self._served():
            return _only(self._command("verify", name))
        return _only(_printed(self.project.verify(name, on_event=self._event).to_dict()))

    def _served(self) -> bool:
        if self.local:
            return False
        connection = Place.of(self.place.folder).connect()
        if connection is None:
            return False
        connection.close()
        return True

    def _command(self, *words: str) -> Document:
        """The document that a command prints; it is ended with this process."""
        profile = ["--env", self.place.profile] if self.place.profile else []
        given = [*words, "--json", "--project", str(self.place.folder), *profile]
        self.tell(f"the service of the project runs `tidegate {' '.join(words)}`")
        with subprocess.Popen(  # noqa: S603 - this interpreter, and no shell
            [sys.executable, "-m", "tidegate", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                printed, remarks = process.communicate()
            except BaseException:
                process.send_signal(signal.SIGINT)
                raise
        for line in remarks.splitlines():
            self.tell(line)
        return document_of(printed, remarks)

    def _event(self, event: Event) -> None:
        if event.moment is Moment.DONE:
            self.tell(
                f"{event.stream}: {event.stage} took {event.seconds:.1f} s" + (event.detail and f", {event.detail}")
            )
        elif event.moment is Moment.RETRY:
            self.tell(f"{event.stream}: {event.detail}, in {event.seconds:.1f} s")


def _printed(values: Document) -> Document:
    """The same document as the command prints it: JSON's types only."""
    found: Document = json.loads(json.dumps(values))
    return found


def _only(report: Document) -> Document:
    found: Document = report["streams"][0]
    return found
