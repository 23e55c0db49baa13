"""Of each key a merged table holds the row of the file that was loaded last among those that are there."""

from __future__ import annotations

import random

import pytest

from integration.files.landing import good, idle, loaded, stream, write_csv

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MERGED = {
    "key": ["id"],
    "write": "merge",
    "strategy": {"kind": "files", "on_delete": "remove"},
    "source": {"file_name": "source_file", "columns": {"id": "bigint", "name": "text"}},
}


class Folder:
    """What the table must hold, in a dict: a file that is loaded later wins its keys."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self._files: dict[str, tuple[int, dict[int, str]]] = {}
        self._load = 0

    def put(self, name: str, rows: dict[int, str]) -> None:
        write_csv(self._folder / name, *rows.items())
        self._files[name] = (self._load + 1, rows)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink()
        del self._files[name]

    def files(self) -> list[str]:
        return sorted(self._files)

    def keys_of_this_load(self) -> set[int]:
        return {key for load, rows in self._files.values() if load == self._load + 1 for key in rows}

    def rows(self) -> list[tuple[int, str, str]]:
        self._load += 1
        table: dict[int, tuple[int, str, str]] = {}
        for name, (_, rows) in sorted(self._files.items(), key=lambda item: item[1][0]):
            table |= {key: (key, value, name) for key, value in rows.items()}
        return sorted(table.values(), key=str)


def check(workspace, folder: Folder, spark) -> None:
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name", "source_file") == folder.rows()


def test_a_row_goes_back_to_what_an_older_file_holds(workspace, landing, spark):
    workspace.write({"t": stream(f"{landing.name}/*.csv", **MERGED)}, connections={})
    folder = Folder(landing)
    folder.put("a.csv", {1: "a", 2: "a", 3: "a"})
    check(workspace, folder, spark)
    folder.put("b.csv", {1: "b", 2: "b", 4: "b"})
    check(workspace, folder, spark)
    folder.put("c.csv", {1: "c"})
    check(workspace, folder, spark)
    folder.remove("b.csv")  # 1 stays c's, 2 is a's again, 4 goes
    check(workspace, folder, spark)
    folder.put("c.csv", {5: "c"})  # a file that lost a key is as good as one that is gone
    check(workspace, folder, spark)
    folder.put("a.csv", {1: "later", 5: "later"})  # loaded again, it is the last one
    check(workspace, folder, spark)
    folder.remove("a.csv")
    check(workspace, folder, spark)
    idle(workspace, "t")


@pytest.mark.parametrize("seed", range(2))
def test_histories_of_files_are_what_a_dict_makes_of_them(workspace, landing, spark, seed):
    workspace.write({"t": stream(f"{landing.name}/*.csv", **MERGED)}, connections={})
    chance, folder = random.Random(seed), Folder(landing)
    for step in range(8):
        for number in range(chance.randint(1, 3)):
            names = folder.files()
            if len(names) > 2 and chance.random() < 0.5:
                folder.remove(chance.choice(names))
                continue
            # Two files of one load must not have one key: nothing would say which of them is later.
            free = sorted(set(range(12)) - folder.keys_of_this_load())
            keys = chance.sample(free, k=min(len(free), chance.randint(1, 6)))
            name = chance.choice([*names, f"{step}{number}.csv"])
            folder.put(name, dict.fromkeys(keys, f"{name} {step}.{number}"))
        check(workspace, folder, spark)
