"""Kills loads at random moments, lets one run repair what is left, and counts what is lost, doubled or stuck.

`python -m faults.kills KILLS RESULTS` adds a line to RESULTS for each kill. A kill is a SIGKILL of a whole process
group, Java included, while its six streams load in parallel; the next process repairs what it left, and is killed in
turn, so that each kill costs one start of Spark. `TIDEGATE_SEED` sets the seed.
"""

from __future__ import annotations

import json
import logging
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.world import STREAMS, World
from support.kills import environment

log = logging.getLogger("faults")
VICTIM = Path(__file__).with_name("victim.py")
PATIENCE = 900
KILLS_OF_A_WORLD = 20
"""Kills before tables and sources are created again: first loads are killed, too, and tables stay small."""
NEAR_A_STAGE = 0.5
STAGES = ("detect", "plan", "read", "check", "write", "verify", "advance")
IN_REPAIR = 0.4
"""How many of the kills come while the kill before is being repaired."""


class Stuck(Exception):
    """A process ended by itself, or answered nothing for minutes."""


@dataclass(kw_only=True)
class Victim:
    """A process that loads when it is asked to, in a process group of its own."""

    world: World

    def __post_init__(self) -> None:
        self.log = (self.world.folder / "stderr").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(VICTIM), str(self.world.folder)],
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**environment(), "TIDEGATE_TRUST_PROJECT": "1"},
        )
        self.answer(PATIENCE)

    def ask(self) -> None:
        """Begins a run of every stream."""
        (self.world.folder / "boundaries").write_text("")
        assert self.process.stdin is not None
        self.process.stdin.write(b"run\n")
        self.process.stdin.flush()

    def answer(self, seconds: float) -> Any:
        """What it says within so many seconds; None if it is still at work."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = self.process.stdout.readline()
        if not line:
            raise Stuck("the process ended by itself")
        return json.loads(line)

    def run(self) -> list[dict[str, Any]]:
        """One whole run."""
        self.ask()
        found = self.answer(PATIENCE)
        if found is None:
            raise Stuck(f"a run took longer than {PATIENCE} s")
        return found

    def boundaries(self) -> str:
        """What the streams have passed since the last question, a line each."""
        return (self.world.folder / "boundaries").read_text(encoding="utf-8")

    def kill(self) -> dict[str, str]:
        """Kills the whole group; the boundary that each stream had passed last, of those that were loading."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.log.close()
        last: dict[str, str] = {}
        for line in self.boundaries().splitlines():
            stream, stage, moment = line.split(" ")
            last[stream] = f"{stage} {moment}"
        return {stream: at for stream, at in last.items() if not at.endswith(" ended")}


@dataclass(kw_only=True)
class Moments:
    """When to kill: half of the times at any moment of a run, else within a second of a stage of one of its streams.

    Args:
        length: how long runs take, which is learnt from kills that come too late.
    """

    random: random.Random
    length: float = 10.0

    def kill(self, victim: Victim, *, repairing: bool) -> dict[str, Any]:
        """Begins a run and kills it; what was hit."""
        near = self.random.random() < NEAR_A_STAGE
        place = f"{self.random.choice(STREAMS)} {self.random.choice(STAGES)} "
        after = self.random.uniform(0, 1.0 if near else self.length)
        began = time.monotonic()
        victim.ask()
        late = near and self._until(victim, place)
        late = late or victim.answer(after) is not None
        hit, spent = victim.kill(), time.monotonic() - began
        if not near:
            self.length = spent if late else 1.2 * self.length
        return {"repairing": repairing, "after": round(spent, 2), "hit": hit}

    def _until(self, victim: Victim, place: str) -> bool:
        """Waits for a stage; whether the run has ended before."""
        while place not in victim.boundaries():
            if victim.answer(0.02) is not None:
                return True
        return False


def settled(victim: Victim) -> dict[str, str]:
    """Repairs what a kill has left by one run; what was wrong with each stream then."""
    world, wrong = victim.world, {}
    for each in victim.run():
        found = {} if each["error"] else world.difference(each["stream"])
        if each["error"]:
            wrong[each["stream"]] = f"stuck: {each['error']}"
        elif any(found.values()):
            wrong[each["stream"]] = ", ".join(f"{number} {what}" for what, number in found.items())
    before = world.versions()
    for each in victim.run():
        if each["result"] != "unchanged":
            wrong.setdefault(each["stream"], f"stuck: a second run was {each['result']}, {each['error']}")
    if world.versions() != before:
        wrong.setdefault("all", "stuck: a second run made a commit")
    return wrong


def play(seed: int, kills: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Kills one world so often; a result for each kill, with what was wrong once it was repaired."""
    world = World(folder=folder, seed=seed)
    moments = Moments(random=random.Random(seed))
    world.change()
    pending: list[dict[str, Any]] = []
    victim = Victim(world=world)
    try:
        for number in range(kills + 1):
            repairing = 0 < number < kills and moments.random.random() < IN_REPAIR
            if number and not repairing:
                wrong = settled(victim)
                yield from ({**each, "wrong": wrong} for each in pending)
                pending = []
                world.change()
            if number < kills:
                pending.append({"seed": seed, "kill": number, **moments.kill(victim, repairing=repairing)})
                victim = Victim(world=world)
    except Stuck as error:
        yield from ({**each, "wrong": {"all": f"stuck: {error}"}} for each in pending)
    finally:
        victim.kill()


def main(kills: int, results: Path, seed: int) -> None:
    """Goes on until there were so many kills; prints each that left something wrong."""
    done, world = 0, 0
    while done < kills:
        folder, wrong = Path(tempfile.mkdtemp(prefix="tidegate-kills-")), False
        with results.open("a", encoding="utf-8") as out:
            for each in play(seed * 10_000 + world, min(KILLS_OF_A_WORLD, kills - done), folder / "project"):
                out.write(json.dumps(each) + "\n")
                out.flush()
                done, wrong = done + 1, wrong or bool(each["wrong"])
                log.info("%s of %s: %s loads hit %s", done, kills, len(each["hit"]), each["wrong"] or "")
        if wrong:
            log.error("see %s", folder)
        else:
            shutil.rmtree(folder)
        world += 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    main(int(sys.argv[1]), Path(sys.argv[2]), int(os.environ.get("TIDEGATE_SEED", "1")))
