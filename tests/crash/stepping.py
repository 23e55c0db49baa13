"""Loads in a process whose clock jumps at the beginning of a stage: stepping.py FOLDER STAGE SECONDS FILE OTHERS.

FILE is that of `support.clock`. With OTHERS, another runner of the same streams comes right after the jump. Prints the
jump and the outcomes, those of the other runner last.
"""

import json
import sys
import time
from pathlib import Path

import yaml

from support.clock import jump
from tidegate.api import Project
from tidegate.engine.events import Event, Moment


def main() -> None:
    folder, stage, seconds, file, others = sys.argv[1:]
    jumped, found = [], []

    def listen(event: Event) -> None:
        if (event.stage, event.moment) != (stage, Moment.START) or jumped:
            return
        before = time.time()
        jump(Path(file), int(seconds))
        jumped.append(time.time() - before)
        if others == "yes":
            values = yaml.safe_load((Path(folder) / "tidegate.yaml").read_text())
            values.pop("spark")  # it is running
            with Project.from_dict(values, folder=Path(folder)) as other:
                found.extend(told(other.run()))

    with Project.load(Path(folder) / "tidegate.yaml") as project:
        own = told(project.run(on_event=listen))
    sys.stdout.write(json.dumps({"jumped": jumped, "outcomes": [*own, *found]}))


def told(report: object) -> list[dict]:
    return [
        {"stream": each.stream, "outcome": each.outcome, "error": each.error and each.error.code}
        | {"message": f"{each.error.message} {each.error.hint}" if each.error else ""}
        for each in report.streams
    ]


if __name__ == "__main__":
    main()
