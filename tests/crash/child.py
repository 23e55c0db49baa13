"""Runs a project and kills its whole process group, JVM included, at one boundary of one stage.

Usage: child.py FOLDER STREAM STAGE MOMENT
"""

import os
import signal
import sys
from pathlib import Path

from tidegate.api import Project


def main() -> None:
    folder, stream, stage, moment = sys.argv[1:]

    def kill(event) -> None:
        if (event.stream, event.stage, event.moment) == (stream, stage, moment):
            os.killpg(0, signal.SIGKILL)

    with Project.load(Path(folder) / "tidegate.yaml") as project:
        project.run(stream, on_event=kill)


if __name__ == "__main__":
    main()
