"""`python -m bench.bookkeeping`: what lists cost as they grow, without rows and without Spark.

A list of the registry is written once, and then read and compared with its digest, as each run does that finds nothing
new. The log of a Delta table is read as each run does.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from bench.rounds import OUT
from support.dashboard import project, seeded
from tidegate.api import Project
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Target
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.manifest import File, Manifest
from tidegate.formats.delta import Delta

PARTITIONS = (100, 10_000, 100_000)
FILES = (1_000, 100_000, 1_000_000)
LOADS = (1_000, 10_000, 100_000)
DELTA_FILES = (1_000, 10_000, 100_000)
METHOD = {"method": "by_date", "column": "day", "period": "day"}


def main() -> None:
    """Prints a line for each list and size, and writes `bench/out/bookkeeping.json`."""
    found: list[dict[str, Any]] = []
    for measured in (_partitions, _files, _loads, _delta_files):
        for line in measured():
            found.append(line)
            print(", ".join(f"{key} {value}" for key, value in line.items()), flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "bookkeeping.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _partitions() -> Iterator[dict[str, Any]]:
    for number in PARTITIONS:
        ledger = Ledger(entries={f"{each:08}": Entry(fingerprint=_fingerprint(each)) for each in range(number)})
        with _Stream() as here:
            kept = here.seconds(partial(here.registry.keep_ledger, here.uid, METHOD, ledger))
            read = here.seconds(partial(_compared, here.registry.ledger, here.uid, ledger))
            yield {"list": "partitions", "entries": number, "written": kept, "read": read, "bytes": here.bytes}


def _files() -> Iterator[dict[str, Any]]:
    for number in FILES:
        names = (f"year=2026/month={each % 12:02}/part-{each:08}.parquet" for each in range(number))
        manifest = Manifest.of(File(path=each, size=64_000_000, tag=f"etag:{hash(each):032x}") for each in names)
        with _Stream() as here:
            kept = here.seconds(partial(here.registry.keep_manifest, here.uid, manifest))
            read = here.seconds(partial(_compared, here.registry.manifest, here.uid, manifest))
            yield {"list": "files", "entries": number, "written": kept, "read": read, "bytes": here.bytes}


def _loads() -> Iterator[dict[str, Any]]:
    for number in LOADS:
        with _Stream(loads=number) as here:
            status = here.seconds(here.project.status)
            history = here.seconds(partial(here.project.history, "orders_000", 20))
            yield {"list": "loads", "entries": number, "status": status, "history": history, "bytes": here.bytes}


def _delta_files() -> Iterator[dict[str, Any]]:
    target = Target(lake="lake", namespace=("n",), table="t")
    for number in DELTA_FILES:
        with tempfile.TemporaryDirectory(prefix="tidegate-bookkeeping-") as folder:
            log = Path(folder) / "n" / "t" / "_delta_log" / f"{0:020}.json"
            log.parent.mkdir(parents=True)
            with log.open("w") as lines:
                lines.writelines(f"{json.dumps(action)}\n" for action in _delta_actions(number))
            state = partial(Delta(name="lake", warehouse=folder).state, target, "0" * 16)
            yield {"list": "files of a Delta table", "entries": number, "read": _Stream.seconds(state)}


def _delta_actions(files: int) -> Iterator[dict[str, Any]]:
    names = [f"c{each}" for each in range(10)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    table: dict[str, Any] = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    schema = json.dumps({"type": "struct", "fields": fields})
    yield {"metaData": {**table, "schemaString": schema, "configuration": {}, "createdTime": 1}}
    for each in range(files):
        bounds = {"minValues": dict.fromkeys(names, each), "maxValues": dict.fromkeys(names, each)}
        statistics = json.dumps({"numRecords": 1, **bounds, "nullCount": dict.fromkeys(names, 0)})
        file = {"path": f"part-{each:08}.parquet", "partitionValues": {}, "size": 64_000_000, "modificationTime": 1}
        yield {"add": {**file, "dataChange": True, "stats": statistics}}


class _Stream:
    """A project with one stream, in a folder that is removed."""

    def __init__(self, loads: int = 1) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-bookkeeping-"))
        self.project: Project = project(self.folder, 1)
        self._service = seeded(self.project, runs_each=loads)
        self.registry = self.project.registry
        self.uid = self.registry.status()[0].uid
        self._before = 0 if loads > 1 else self._size()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._service.close()
        self.project.close()
        shutil.rmtree(self.folder)

    @property
    def bytes(self) -> int:
        """What the registry's file has grown by."""
        return self._size() - self._before

    @staticmethod
    def seconds(act: Callable[[], object]) -> float:
        began = time.monotonic()
        act()
        return round(time.monotonic() - began, 3)

    def _size(self) -> int:
        return sum(each.stat().st_size for each in (self.folder / ".tidegate").glob("registry.db*"))


def _fingerprint(number: int) -> Fingerprint:
    return Fingerprint.parse(f"tg1:{1_000_000 + number}:1a2b3c4d5e:6f708192a3:b4c5d6e7f8:{number:010x}")


def _compared(read: Callable[[str], Ledger | Manifest | None], uid: str, written: Ledger | Manifest) -> None:
    found = read(uid)
    if found is None or found.digest != written.digest:
        raise AssertionError("what was read is not what was written")


if __name__ == "__main__":
    main()
