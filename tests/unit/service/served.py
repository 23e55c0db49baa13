"""A service whose commands are those below, not Tidegate's: `python served.py FOLDER`."""

# ruff: noqa: T201 - what it prints is what the tests look at
import os
import signal
import sys
import time
from pathlib import Path

from tidegate.engine.events import Journal, Stage, ignore
from tidegate.engine.observers import Command, Subject, observed
from tidegate.engine.stream import Stream
from tidegate.service.place import Claim, Place
from tidegate.service.supervisor import Options, Supervisor


def run(words):
    """What the words of a command do here."""
    match words[1:]:
        case ["tell", *_]:
            print(Path.cwd(), os.environ.get("OF_THE_CALLER"), sys.stdin.read())
            print("über", file=sys.stderr)
        case ["load", *_]:
            stream = Stream(
                name="a", uid="a", source=None, source_name="", target=None, format=None, strategy=None, writer=None
            )
            subject = Subject(stream=stream, run_id="1", command=Command.RUN)
            journal = Journal(stream="a", listener=observed(ignore, (), subject))
            with journal.stage(Stage.READ) as detail:
                detail("7 rows")
        case ["exit", code, *_]:
            return int(code)
        case ["sleep", *_]:
            try:
                print("asleep", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                print("woken")
                return 130
        case ["break", *_]:
            raise ValueError("it is broken")
        case ["die", *_]:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            return 9
    return 0


if __name__ == "__main__":
    place = Place.of(sys.argv[1])
    claim = Claim.inherited(*map(int, sys.argv[3].split(","))) if len(sys.argv) > 3 else place.claim()
    if claim is None:
        sys.exit("another one runs")
    options = Options(warm=False, ends_after=float(sys.argv[2]) if len(sys.argv) > 2 else None)
    Supervisor(place=place, run=run, options=options, say=lambda text: print(text, flush=True), claim=claim).serve()
    Path(place.folder, "ended").touch()
