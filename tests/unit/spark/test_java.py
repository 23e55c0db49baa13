"""Which Java runs Spark, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import EnvironmentMissing
from tidegate.spark.java import find_java


def fake(folder: Path, version: str, code: int = 0) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {code}\n")
    path.chmod(0o755)
    return folder


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home, other = fake(tmp_path / "home", "21.0.2"), fake(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.path, found.version) == (home / "bin" / "java", 21)
    assert find_java({"PATH": str(other / "bin")}).version == 17


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        ("1.8.0_392", 0, "too old, Spark needs 17 or later"),
        ("11.0.21", 0, "too old, Spark needs 17 or later"),
        ("17.0.1", 1, "does not start"),
        (None, 0, "JAVA_HOME"),
    ],
)
def test_a_java_that_cannot_run_spark_is_named(tmp_path: Path, version: str | None, code: int, told: str) -> None:
    home = fake(tmp_path, version, code) if version else tmp_path
    with pytest.raises(EnvironmentMissing, match=told) as error:
        find_java({"JAVA_HOME": str(home), "PATH": "/usr/bin"})
    assert error.value.exit_code == 2
    assert "too old" not in told or "apt-get install openjdk-17-jre-headless" in error.value.hint


def test_no_java_is_one_line_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="none was found") as error:
        find_java({"PATH": str(tmp_path)})
    assert "apt-get install openjdk-17-jre-headless" in error.value.hint
