"""Goes on with a backfill and kills its whole process group, JVM included, some seconds after Spark is up.

Usage: backfilling.py FOLDER STREAM SECONDS
"""

import os
import signal
import sys
import threading
from pathlib import Path

from tidegate.api import Project


def main() -> None:
    folder, stream, seconds = sys.argv[1:]
    with Project.load(Path(folder) / "tidegate.yaml") as project:
        project.sessions.load_session()
        timer = threading.Timer(float(seconds), lambda: os.killpg(0, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        project.backfills.resume(stream)


if __name__ == "__main__":
    main()
