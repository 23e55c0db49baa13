"""A clock of the machine that jumps, for a process and whatever it starts, Java included.

Asked for by tests of faults. libfaketime does not know the calls by which Python waits.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock.c")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The machine's own, and how far ahead of it some processes are."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of the processes that it is the clock of."""
        return {"LD_PRELOAD": str(self.library), "CLOCK_OFFSET": str(self.file)}

    def jump(self, seconds: int) -> None:
        """From now on it is so far ahead; less than zero is behind."""
        jump(self.file, seconds)


def jump(file: Path, seconds: int) -> None:
    """The same, for a process that knows the file."""
    with file.open("r+b") as opened:
        opened.write(seconds.to_bytes(8, "little", signed=True))


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands between a process and its clock, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)], check=True)
    return library


@pytest.fixture
def machine_clock(clock_library: Path, tmp_path: Path) -> Clock:
    """One that is right until it jumps."""
    file = tmp_path / "clock"
    file.write_bytes(bytes(8))
    return Clock(library=clock_library, file=file)
