"""Jars: named by coordinate, fetched whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import EnvironmentMissing
from tidegate.spark import jars


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that, asked to run Ivy, writes what the test put beside it."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'openjdk version "17.0.1"\' >&2; exit 0; fi\n'
        f"echo ran >> {home}/calls\n"
        'for last; do :; done; folder=$(dirname "$last")\n'
        f'[ -f {home}/answer ] || exit 1\ncp {home}/answer "$folder/thing-1.jar"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_a_jar_is_fetched_once_and_then_read_from_the_cache(java: Path, tmp_path: Path) -> None:
    (java / "answer").write_bytes(b"jar")
    cache = tmp_path / "cache"
    told: list[str] = []
    for _ in range(2):
        assert jars.resolve(["org:thing:1", "org:thing:1"], cache, told.append) == (cache / "thing-1.jar",)
    assert told == ["fetching org:thing:1 (1 of 1)"]
    assert (java / "calls").read_text() == "ran\n"
    assert [path.name for path in cache.iterdir()] == ["thing-1.jar"], "nothing temporary stays"
    assert jars.missing(["org:thing:1", "org:other:2"], cache) == ("org:other:2",)


def test_what_was_pinned_is_compared(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (java / "answer").write_bytes(b"something else")
    monkeypatch.setitem(jars.SHA256, "org:thing:1", "0" * 64)
    with pytest.raises(EnvironmentMissing, match="not the one that was pinned"):
        jars.resolve(["org:thing:1"], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_jar_is_compared_at_use_once_a_change(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was copied by hand; a damaged one is named and fetched again."""
    (java / "answer").write_bytes(b"jar")
    monkeypatch.setitem(jars.SHA256, "org:thing:1", hashlib.sha256(b"jar").hexdigest())
    cache, told = tmp_path / "cache", []
    cache.mkdir()
    jar = cache / "thing-1.jar"
    jar.write_bytes(b"jar")
    assert jars.resolve(["org:thing:1"], cache, told.append) == (jar,)
    note = (cache / ".thing-1.jar.checked").stat()
    assert jars.resolve(["org:thing:1"], cache, told.append) == (jar,)
    assert (cache / ".thing-1.jar.checked").stat() == note, "it was hashed once"
    assert (told, (java / "calls").exists()) == ([], False)

    jar.write_bytes(b"jam")  # of the same size
    jars.resolve(["org:thing:1"], cache, told.append)
    assert jar.read_bytes() == b"jar"
    assert len(told) == 1
    assert f"{jar} is damaged" in told[0]
    assert "fetching it again" in told[0]
    assert {path.name for path in cache.iterdir()} == {"thing-1.jar", ".thing-1.jar.checked"}

    jar.write_bytes(b"ja")
    (java / "answer").unlink()
    with pytest.raises(EnvironmentMissing, match=r"thing-1.jar is damaged, .* and could not be fetched"):
        jars.resolve(["org:thing:1"], cache)


def test_a_damaged_note_is_no_proof(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (java / "answer").write_bytes(b"jar")
    monkeypatch.setitem(jars.SHA256, "org:thing:1", hashlib.sha256(b"jar").hexdigest())
    (tmp_path / ".thing-1.jar.checked").write_bytes(b"\xff\x00")
    (tmp_path / "thing-1.jar").write_bytes(b"jam")
    jars.resolve(["org:thing:1"], tmp_path)
    assert (tmp_path / "thing-1.jar").read_bytes() == b"jar"


@pytest.mark.usefixtures("java")
def test_offline_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="org:thing:1 is not in the cache and could not be fetched") as error:
        jars.resolve(["org:thing:1"], tmp_path / "cache")
    assert "network" in error.value.hint


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a:../b:1", "a:b:", "a:-rf:1"])
def test_coordinates_that_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="not a Maven coordinate"):
        jars.resolve([text], tmp_path)


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentMissing, match="cannot be written"):
        jars.resolve(["org:thing:1"], tmp_path / "file" / "cache")


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_the_bundled_log_store_is_what_its_source_says(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "scripts" / "log_store.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "made.jar")], check=True, timeout=180)
    (bundled,) = jars.resolve([jars.DELTA_LOG_STORE], tmp_path)
    assert (tmp_path / "made.jar").read_bytes() == bundled.read_bytes()
    assert jars.missing([jars.DELTA_LOG_STORE], tmp_path) == ()
