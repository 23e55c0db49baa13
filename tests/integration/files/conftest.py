"""A project in a folder of its own, whose Spark plans for few rows, and a folder that files land in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.lake import QUICK
from support.workspace import Workspace


class Quick(Workspace):
    def write(self, streams: dict[str, Any], *, connections: dict[str, Any] | None = None, **rest: Any) -> None:
        super().write(streams, connections=connections or {}, spark={"conf": QUICK}, **rest)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing zone+1"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Quick(folder=tmp_path)
