"""A few days of the demo's real data."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from tidegate_demo import flights


@pytest.fixture(scope="module")
def january(tmp_path_factory):
    """The first five days of the real files: enough for every kind of change, and quick to read."""
    real, folder = flights.data_folder(), tmp_path_factory.mktemp("data")
    with zipfile.ZipFile(real / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    kept = [line for line in lines[1:] if line.startswith(tuple(f"2013,1,{day}," for day in range(1, 6)))]
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "".join([lines[0], *kept]))
    weather = (real / "weather.csv").read_text().splitlines(keepends=True)
    (folder / "weather.csv").write_text("".join(weather[:500]))
    for name in flights.SMALL:
        shutil.copy(real / f"{name}.csv", folder)
    return folder
