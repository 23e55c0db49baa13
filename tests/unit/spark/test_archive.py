"""Which archive of classes a JVM is given, and in which order its jars stand."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tidegate.spark import archive
from tidegate.spark.jars import DELTA, DELTA_STORAGE, ICEBERG, POSTGRESQL, SHA256, Coordinate


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that nobody starts, and an empty cache."""
    modules = tmp_path / "lib" / "modules"
    for file in (tmp_path / "bin" / "java", modules):
        file.parent.mkdir()
        file.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "a cache"))
    (tmp_path / "a cache").mkdir()
    for coordinate in (ICEBERG, DELTA, DELTA_STORAGE):  # their jars are empty here
        monkeypatch.setitem(SHA256, coordinate, hashlib.sha256(b"").hexdigest())
    return modules


def place(coordinates: tuple[str, ...]) -> Path:
    lake = archive._lake(coordinates)
    assert lake is not None
    return archive._file(lake)


def test_jars_of_lakes_come_first_whatever_else_a_stream_needs() -> None:
    assert archive.ordered((POSTGRESQL, DELTA_STORAGE, DELTA)) == (DELTA, DELTA_STORAGE, POSTGRESQL)
    assert archive.ordered((DELTA, POSTGRESQL, ICEBERG)) == (ICEBERG, DELTA, POSTGRESQL)


def test_a_jvm_gets_an_archive_that_is_there(java: Path) -> None:
    assert archive.options((ICEBERG, POSTGRESQL)) == ()
    place((ICEBERG,)).touch()
    assert f"'-XX:SharedArchiveFile={place((ICEBERG,))}'" in archive.options((ICEBERG, POSTGRESQL)), (
        "the folder's blank"
    )
    assert archive.options((DELTA, DELTA_STORAGE)) == ()
    assert archive.options((POSTGRESQL,)) == ()
    assert archive.make((POSTGRESQL,)) is None


def test_another_java_or_spark_at_the_same_place_gets_another_one(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "jars" / "spark-core.jar"
    jar.parent.mkdir()
    jar.touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    places = {place((ICEBERG,))}
    os.utime(java, ns=(1, 1))
    places.add(place((ICEBERG,)))
    os.utime(jar, ns=(1, 1))
    places.add(place((ICEBERG,)))
    assert len(places) == 3
    assert len({each.name.rpartition("-")[0] for each in places}) == 1, "so that the old one can be told"


def test_one_that_no_longer_fits_goes_when_the_next_is_made(java: Path) -> None:
    old, delta = place((ICEBERG,)), place((DELTA, DELTA_STORAGE))
    archive._put(old, Path.touch)
    archive._put(delta, Path.touch)
    os.utime(java, ns=(1, 1))
    new = place((ICEBERG,))
    archive._put(new, Path.touch)
    assert (old.is_file(), delta.is_file(), new.is_file()) == (False, True, True)


def test_one_that_is_there_is_not_made_again(java: Path) -> None:
    jars = java.parents[1] / "a cache"
    for coordinate in (ICEBERG, DELTA, DELTA_STORAGE):
        (jars / Coordinate.parse(coordinate).file_name).touch()
    place((ICEBERG,)).touch()
    assert archive.make((ICEBERG,)) == place((ICEBERG,))


def test_archives_of_environments_that_are_gone_are_removed(java: Path, tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    for coordinate in (ICEBERG, DELTA, DELTA_STORAGE):
        (cache / Coordinate.parse(coordinate).file_name).touch()
    place((ICEBERG,)).touch()
    mine = archive.make((ICEBERG,))
    gone, unknown, old = (cache / f"iceberg-{name}-1.jsa" for name in ("gone", "unknown", "old"))
    for file in (gone, unknown, old):
        file.write_bytes(b"12")
    (cache / "iceberg-gone.json").write_text(json.dumps([str(java), str(tmp_path / "no venv" / "jars")]))
    os.utime(old, (0, 0))
    assert archive.prune() == (2, 4)
    assert sorted(cache.glob("*.jsa")) == sorted([mine, unknown])
    assert not (cache / "iceberg-gone.json").exists()
    assert archive.prune() == (0, 0)
