"""A few days of the demo's real data."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path

from tidegate_demo import flights


def some_days(folder: Path, days: Collection[tuple[int, int]]) -> Path:
    """The real files with these days (month, day) of 2013 alone: quick to read, and every kind of change is in them."""
    real = flights.data_folder()
    with zipfile.ZipFile(real / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    kept = tuple(f"2013,{month},{day}," for month, day in days)
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "".join([lines[0], *(line for line in lines if line.startswith(kept))]))
    weather = (real / "weather.csv").read_text().splitlines(keepends=True)
    kept = tuple(f"{airport},{day}" for airport in ("EWR", "JFK", "LGA") for day in kept)
    (folder / "weather.csv").write_text("".join([weather[0], *(line for line in weather if line.startswith(kept))]))
    for name in flights.SMALL:
        shutil.copy(real / f"{name}.csv", folder)
    return folder
