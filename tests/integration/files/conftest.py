"""A project in a folder of its own, and one that files land in."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.workspace import Workspace


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing zone+1"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(folder=tmp_path)
