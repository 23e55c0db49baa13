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


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_an_old_java_is_named_with_the_command(tmp_path: Path, version: str) -> None:
    with pytest.raises(EnvironmentMissing, match="too old, Spark needs 17 or later") as error:
        find_java({"JAVA_HOME": str(fake(tmp_path, version))})
    assert "apt-get install openjdk-17-jre-headless" in error.value.hint
    assert error.value.exit_code == 2


def test_no_java_is_one_line_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="none was found") as error:
        find_java({"PATH": str(tmp_path)})
    assert "apt-get install openjdk-17-jre-headless" in error.value.hint


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_a_java_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="does not start"):
        find_java({"JAVA_HOME": str(fake(tmp_path, "17.0.1", code=1))})
