"""Leaves a service behind after a command that ran without one, for a project with `keep_warm:`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate.service.place import Place


def leave_behind(folder: Path, same: Sequence[str], seconds: float, environment: Mapping[str, str]) -> None:
    """Starts a service that ends by itself after so long without a command; at once, and whatever becomes of it.

    Args:
        folder: the project's, or its file.
        same: the words by which the service opens the project as the command did.
        environment: as it was when the command began: PySpark adds variables, with which its Spark would be another one
            than the next command asks for.
    """
    place = Place.of(folder)
    claim = place.claim() if sys.platform == "linux" else None
    if claim is None:  # one runs, or begins
        return
    words = ["--project", str(folder), *same]
    command = [sys.executable, "-m", "tidegate", "serve", "--no-http", "--no-schedule", "--quiet", *words]
    # The next command may come before that process has begun: it finds the socket, and waits.
    with claim.lock, claim.listening:
        subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--ends-after", f"{seconds:.0f}s", "--inherited", ",".join(map(str, claim.numbers()))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=dict(environment),
            pass_fds=claim.numbers(),
        )
