"""Temporary folders go with their process, or with the next one after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidegate.spark import temporary

HOLD = """
import sys, time
from pathlib import Path
from tidegate.spark import temporary
with temporary.folder(Path(sys.argv[1])) as made:
    (made / "spill").write_text("x")
    print(made, flush=True)
    time.sleep(60)
"""


def test_a_folder_of_a_killed_process_is_removed_and_one_of_a_living_is_not(tmp_path: Path) -> None:
    base, held = tmp_path / "base", []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(base)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        held.append((process, Path(process.stdout.readline().strip())))
    (killed, left), (alive, kept) = held
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert (left / "spill").exists()
    with temporary.folder(base) as mine:
        assert set(base.iterdir()) == {kept, mine}
        assert (kept / "spill").exists()
    alive.kill()
    alive.communicate()
    with temporary.folder(base) as mine:
        assert set(base.iterdir()) == {mine}
    assert not base.exists(), "nothing stays"


def test_a_folder_that_somebody_else_could_change_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / f"tidegate-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    with temporary.folder() as mine:
        assert planted not in mine.parents
        assert mine.parent.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [planted]
