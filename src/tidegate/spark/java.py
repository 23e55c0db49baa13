"""Finds a Java that can run Spark, or says how to install one.

Never imports pyspark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import EnvironmentMissing

LEAST = 17
INSTALL = "apt-get install openjdk-17-jre-headless"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark runs on: its executable and its major version."""

    path: Path
    version: int


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark would start: `JAVA_HOME` if it is set, else the first on `PATH`.

    Raises:
        EnvironmentMissing: there is none, it does not start, or it is older than 17.
    """
    environ = os.environ if environ is None else environ
    path = executable(environ)
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentMissing(f"Java at {path} does not start", hint=f"Install one: `{INSTALL}`.") from error
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None:
        raise EnvironmentMissing(f"{path} does not report its version", hint=f"Install one: `{INSTALL}`.")
    version = int(found[1])
    if version < LEAST:
        raise EnvironmentMissing(
            f"Java {version} at {path} is too old, Spark needs {LEAST} or later",
            hint=f"Install it: `{INSTALL}`, then point JAVA_HOME at it.",
        )
    return Java(path=path, version=version)


def executable(environ: Mapping[str, str]) -> Path:
    """Where it is, not asked yet. Raises EnvironmentMissing: there is none."""
    home = environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not path.is_file():
            raise EnvironmentMissing(
                f"JAVA_HOME is {home}, which has no bin/java",
                hint=f"Correct or unset JAVA_HOME; to install Java: `{INSTALL}`.",
            )
        return path
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise EnvironmentMissing(f"Spark needs Java {LEAST} or later and none was found", hint=f"`{INSTALL}`")
    return Path(found)


def spark_home() -> Path:
    """`SPARK_HOME`, else the Spark that came with PySpark, which need not be imported for it."""
    found = importlib.util.find_spec("pyspark")
    return Path(os.environ.get("SPARK_HOME") or (found and found.origin and Path(found.origin).parent) or "")
