"""SIGKILL of a whole process group, JVM included, at one boundary of one stage of a run.

Used by the tests of crashes. Must never kill a process that it did not start.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.workspace import Workspace
from tidegate.engine.events import Moment, Stage

CRASH = Path(__file__).parents[1] / "crash"


def kill_at(workspace: Workspace, stream: str, stage: Stage, moment: Moment) -> None:
    """Runs a stream in a process of its own, which is gone when it gets there."""
    done = subprocess.run(
        [sys.executable, str(CRASH / "child.py"), str(workspace.folder), stream, stage, moment],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=environment(),
    )
    assert done.returncode == -signal.SIGKILL, f"never reached {stage} {moment}: {done.stderr[-3000:]}"


def backfilling(workspace: Workspace, stream: str, seconds: float) -> subprocess.Popen:
    """Goes on with a backfill in a process of its own, which is gone so long after its Spark is up."""
    return subprocess.Popen(
        [sys.executable, str(CRASH / "backfilling.py"), str(workspace.folder), stream, str(seconds)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """What such a process needs to find the same code."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
