"""The project of `examples/parking` in a folder of its own; its variables name servers that nobody has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import Project

PARKING = Path(__file__).parents[2] / "examples/parking"
VARIABLES = {
    "REGISTRY_URL": "sqlite:///registry.db",
    "LAKE_URL": "postgresql://lake@127.0.0.1:9/lake",
    "REST_URL": "http://127.0.0.1:9",
    "S3_ENDPOINT": "http://127.0.0.1:9",
    "OFFICE_URL": "postgresql://office@127.0.0.1:9/office",
    "TRINO_URL": "trino://tidegate@127.0.0.1:9/lake",
    "CITY_URL": "http://127.0.0.1:9",
}


def parking_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project; to be closed."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    (folder / "tidegate.yaml").write_text((PARKING / "tidegate.yaml").read_text("utf-8"), encoding="utf-8")
    return Project.load(folder)
