"""The hook `dbt`: `dbt build` of a project beside this one, by the program dbt in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tidegate.core.ports.hook import PublishedLoad
from tidegate.errors import ConfigError, EnvironmentMissing, HookFailed

POLL = 0.1
GRACE = 5.0
"""Seconds in which dbt may end by itself once it is told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dbt:
    """`dbt build` builds and tests the models that read the table. Runs the dbt project's code: `--trust-project`.

    Args:
        project_dir: the folder of the dbt project, relative to this one.
        profiles_dir: the folder of its `profiles.yml`; the project's folder unless given.
        select: what is built, as `dbt build --select` takes it, such as `source:lake.orders+`.
        target: the target of the profile; the profile's own unless given.
    """

    kind: ClassVar[str] = "dbt"
    main: ClassVar[str] = "project_dir"

    project_dir: str
    profiles_dir: str | None = None
    select: str | None = None
    target: str | None = None
    folder: Path = field(metadata={"given": True})

    def __post_init__(self) -> None:
        for name in ("project_dir", "profiles_dir", "select", "target"):
            text = getattr(self, name)
            if text is not None and (not text.strip() or text.startswith("-")):
                raise ConfigError(f"dbt: `{name}:` is {text!r}, which dbt would take for an option")

    @property
    def label(self) -> str:
        return f"dbt build of {self.project_dir}{f', {self.select}' if self.select else ''}"

    @property
    def command(self) -> list[str]:
        """The command; no shell reads it."""
        project = self._path(self.project_dir)
        profiles = self._path(self.profiles_dir) if self.profiles_dir else project
        command = [_program(), "--no-use-colors", "build", "--project-dir", project, "--profiles-dir", profiles]
        command += ["--select", *self.select.split()] if self.select else []
        return [*command, *(["--target", self.target] if self.target else [])]

    def refuse(self) -> None:
        """Raises EnvironmentMissing: there is no program dbt. ConfigError: no dbt project in the folder."""
        _program()
        if not (Path(self._path(self.project_dir)) / "dbt_project.yml").is_file():
            raise ConfigError(f"dbt: {self.project_dir!r} holds no dbt_project.yml")

    def run(self, load: PublishedLoad, *, seconds: float, ended: Callable[[], bool]) -> None:  # noqa: ARG002 - dbt reads the table
        """Runs it; its output is in its own log, since it may hold values of rows.

        Raises:
            HookFailed: dbt ended with an error, or was ended because it took too long.
        """
        self.refuse()
        deadline = time.monotonic() + seconds
        process = subprocess.Popen(  # noqa: S603 - no shell; the project is trusted to run dbt
            self.command,
            cwd=self._path(self.project_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what it starts ends with it
        )
        try:
            while process.poll() is None:
                if ended() or time.monotonic() > deadline:
                    raise HookFailed(f"it took longer than {seconds:g} s")
                time.sleep(POLL)
        finally:
            _end(process)
        if process.returncode:
            words = " ".join(self.command[2:])
            raise HookFailed(
                f"dbt ended with exit code {process.returncode}",
                hint=f"Its log is in {self.project_dir}/logs/dbt.log; the command was `dbt {words}`.",
            )

    def _path(self, text: str) -> str:
        return os.path.normpath(self.folder / text)


def _program() -> str:
    """The program of the PATH, else that beside this Python."""
    found = shutil.which("dbt") or shutil.which("dbt", path=str(Path(sys.executable).parent))
    if found is None:
        raise EnvironmentMissing(
            "the program dbt is not on the PATH", hint="Install dbt with its adapter, for example dbt-trino."
        )
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
