"""Nobody else on the machine can read what a command writes, unless it is told to let them."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.workspace import Workspace

SHOP = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL);"


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidegate", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )


def modes(folder: Path) -> dict[Path, int]:
    found = {}
    for path in folder.rglob("*"):
        try:
            found[path] = path.lstat().st_mode & 0o077
        except OSError:
            continue
    return found


def test_a_mask_that_is_none_is_refused(tmp_path):
    said = run(tmp_path, "--version", TIDEGATE_UMASK="rw")
    assert (said.returncode, "must be octal digits" in said.stderr) == (2, True)


@pytest.mark.spark
def test_what_a_load_writes_is_for_its_user_alone(tmp_path):
    folder, local = tmp_path / "project", tmp_path / "local"
    folder.mkdir()
    local.mkdir()
    with sqlite3.connect(folder / "shop.db") as shop:
        shop.executescript(SHOP)
    Workspace(folder=folder).write(
        {
            "t": {
                "source": {"connection": "shop", "table": "t"},
                "target": "lake.s.t",
                "key": ["id"],
                "strategy": "full",
                "write": "merge",
                "checks": [{"not_null": "name", "on_fail": "quarantine"}],
            }
        },
        connections={"shop": {"url": f"sqlite:///{folder / 'shop.db'}"}},
        spark={"master": "local[1]", "conf": {"spark.driver.memory": "1g", "spark.local.dir": str(local)}},
    )
    before = set(folder.rglob("*"))
    spilled: dict[Path, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            spilled.update(modes(local))

    looking = threading.Thread(target=look)
    looking.start()
    said = run(folder, "run")
    ended.set()
    looking.join()
    assert said.returncode == 0, said.stderr
    written = {path: mode for path, mode in modes(folder).items() if path not in before}
    assert {"registry.db", "catalog.db"} <= {path.name for path in written}
    assert any(path.suffix == ".parquet" for path in written)
    assert any("quarantine" in str(path) for path in written)
    assert {path: oct(mode) for path, mode in written.items() if mode} == {}
    assert any("blockmgr" in str(path) for path in spilled)
    assert {path: oct(mode) for path, mode in spilled.items() if mode} == {}
    assert list(local.iterdir()) == []
