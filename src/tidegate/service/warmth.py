"""Leaves a service behind after a command that ran without one, for a project with `keep_warm:`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def leave_behind(folder: Path, profile: str | None, seconds: float, environment: Mapping[str, str]) -> None:
    """Starts a service that ends by itself after so long without a command; at once, and whatever becomes of it.

    Args:
        environment: as it was when the command began: PySpark adds variables, with which its Spark would be another one
            than the next command asks for.
    """
    words = ["--project", str(folder), *(["--env", profile] if profile else [])]
    command = [sys.executable, "-m", "tidegate", "serve", "--no-http", "--no-schedule", "--quiet", *words]
    subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--ends-after", f"{seconds:.0f}s"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(environment),
    )
