"""Every combination that `check` accepts, over random histories, against a model that shares no code with the engine.

Each dialect runs its share of what databases have in common, and each format of files its share of each envelope, on
one table format; `TIDEGATE_MATRIX_EVERY=1` has each of them run all of it, on both. `TIDEGATE_MATRIX_SEED` sets the
seed, `TIDEGATE_MATRIX_KEYS` and `TIDEGATE_MATRIX_PHASES` how much is played (no phases: the shortest history of each
combination), `TIDEGATE_MATRIX_SHAPES` a regular expression of the streams to play, and `TIDEGATE_MATRIX_RESULTS` a file
that gets a line for each run, of which `docs/proven.md` is made. Streams of one source share a history, so fewer of
them get another one.
"""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from matrix.groups import FLAVOURS, FORMATS
from matrix.scripts import by_kinds, chosen, script
from matrix.shapes import every, shapes_of
from matrix.shrink import player, program, shrunk
from tidegate.extras import version

pytest_plugins = ["matrix.grounds"]
SEED = int(os.environ.get("TIDEGATE_MATRIX_SEED", "2"))
KEYS = int(os.environ.get("TIDEGATE_MATRIX_KEYS", "20"))
PHASES = int(os.environ.get("TIDEGATE_MATRIX_PHASES", "0"))
EVERY = bool(os.environ.get("TIDEGATE_MATRIX_EVERY"))
SHAPES = re.compile(os.environ.get("TIDEGATE_MATRIX_SHAPES", ""))
RESULTS = os.environ.get("TIDEGATE_MATRIX_RESULTS")


AS_PARQUET = {"http", "dlt"}
"""Sources whose answers are kept as Parquet files before anything else sees them, and are run as such here; how answers
become files is in `integration/api`."""


def test_every_combination_is_in_the_matrix():
    run = {
        (flavour.source, flavour.name, kind, shape.name)
        for flavour in FLAVOURS.values()
        for kind in FORMATS
        for shape in flavour.shapes(kind, SEED)
    }
    accepted = {
        (one.source, one.flavour, one.table_format, shape.name)
        for one in every()
        for shape in shapes_of(one, SEED)
        if one.source not in AS_PARQUET
    }
    assert run == accepted


def test_what_is_run_as_parquet_is_accepted_no_further_than_parquet():
    def ways(*sources):
        return {
            (one.strategy, one.method, one.writer, one.deletes, one.keyed) for one in every() if one.source in sources
        }

    assert ways(*AS_PARQUET) <= ways("files")


@pytest.mark.parametrize(("group", "together"), [("kin", ["iceberg"]), ("kin", ["delta"]), ("family", FORMATS)])
def test_every_combination_is_run_by_one_flavour_of_its_group(group, together):
    for name in {getattr(flavour, group) for flavour in FLAVOURS.values()}:
        runs = [(one, kind) for one in FLAVOURS.values() if getattr(one, group) == name for kind in together]
        shared = [shape.name for one, kind in runs for shape in chosen(one, kind, SEED, every_kin=group == "kin")]
        assert sorted(shared) == sorted({shape.name for one, kind in runs for shape in one.shapes(kind, SEED)})


def marks_of(name):
    heavy = FLAVOURS[name].server in ("kafka", "trino_server")
    return [pytest.mark.slow, *([pytest.mark.servers] if heavy else [])]


@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in FLAVOURS])
def test_tables_are_what_their_histories_say(name, format, grounds):
    flavour = FLAVOURS[name]
    programs = []
    found = [shape for shape in chosen(flavour, format, SEED, every_kin=EVERY) if SHAPES.search(shape.name)]
    for kinds, shapes in by_kinds(flavour, found, SEED).items():
        started = time.monotonic()
        steps = script(flavour, shapes, kinds, SEED, keys=KEYS, phases=PHASES, format=format)
        playing = player(flavour, format, shapes, grounds(flavour.server))
        failures = playing.play(steps)
        _keep(name, format, playing, time.monotonic() - started)
        for failure in failures[:3]:
            fewer = shrunk(failure, name, format, steps, lambda: grounds(flavour.server))
            programs.append(program(failure, name, format, fewer))
        programs += [f"# {failure}" for failure in failures[3:]]
    assert not programs, "\n".join([f"seed {SEED}", *programs])


def _keep(name, format, playing, seconds):
    if RESULTS is None:
        return
    failed = {failure.shape.name for failure in playing.failures}
    line = {
        "source": FLAVOURS[name].kin,
        "flavour": FLAVOURS[name].name,
        "format": format,
        "loads": playing.loads,
        "keys": KEYS,
        "seconds": round(seconds, 1),
    }
    line |= {"run": f"{datetime.now(UTC):%Y-%m-%d}, {version().partition('+')[0]}"}
    line |= {"shapes": [shape.name for shape in playing.shapes], "failed": sorted(failed), "seed": SEED}
    with Path(RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
