"""The command `certify` as a user calls it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LONGEST = 400


def command(folder: Path, *words: str) -> list[str]:
    """What starts it, with the packages that lie in the folder."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tidegate.cli.app import main; sys.exit(main())"
    return [sys.executable, "-c", code, str(folder), "certify", *words]


def environment() -> dict[str, str]:
    """Two cores and little memory are all that there is."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def certify(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document."""
    done = subprocess.run(
        command(folder, *words, "--json"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
        env=environment(),
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def named(document: dict[str, Any], state: str) -> set[str]:
    """The cases that ended so."""
    return {case["name"] for case in document["cases"] if case["state"] == state}
