"""Loads every stream of a project in parallel whenever a line arrives, until somebody kills it.

Usage: victim.py FOLDER. Writes each boundary to FOLDER/boundaries, which outlives the process.
"""

import json
import os
import sys
from pathlib import Path

from tidegate.api import Project
from tidegate.engine.events import Event, Moment


def main() -> None:
    folder = Path(sys.argv[1])
    boundaries = os.open(folder / "boundaries", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: Event) -> None:
        if event.moment is not Moment.WORKING:
            os.write(boundaries, f"{event.stream} {event.stage} {event.moment}\n".encode())

    with Project.load(folder / "tidegate.yaml") as project:
        project.sessions.load_session()
        say("ready")
        for _ in sys.stdin:
            report = project.run(parallel=6, on_event=note)
            say([describe(outcome) for outcome in report.streams])


def describe(outcome) -> dict:
    error = None if outcome.error is None else f"{outcome.error.code}: {outcome.error.message}"
    return {"stream": outcome.stream, "result": outcome.outcome, "error": error}


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
