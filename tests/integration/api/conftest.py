"""A project in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(folder=tmp_path)
