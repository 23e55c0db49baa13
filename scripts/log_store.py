"""Compiles the log store of Delta in S3 into the jar beside its source; needs javac.

`python scripts/log_store.py` writes the jar, byte for byte the same each time.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tidegate.spark import jars

SOURCE = jars.BUNDLED[jars.DELTA_LOG_STORE].with_name("ConditionalLogStore.java")
RELEASE = "17"


def class_of(source: Path, folder: Path) -> Path:
    """The class that javac makes of it, without what a debugger would want to know."""
    spec = importlib.util.find_spec("pyspark")
    spark = Path((spec.submodule_search_locations or [""])[0] if spec else "") / "jars"
    needed = [*jars.resolve((jars.DELTA_STORAGE, jars.S3A[0])), *spark.glob("hadoop-client-api-*.jar")]
    command = ["javac", "--release", RELEASE, "-g:none", "-proc:none", "-nowarn", "-d", str(folder)]
    command += ["-cp", os.pathsep.join(map(str, needed)), str(source)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)  # noqa: S603 - our own command
    return folder / "tidegate" / f"{source.stem}.class"


def write(target: Path) -> None:
    """The jar, with no time of day in it."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(target, "w") as jar:
        compiled = class_of(SOURCE, Path(folder))
        jar.writestr(zipfile.ZipInfo(f"tidegate/{compiled.name}"), compiled.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else jars.BUNDLED[jars.DELTA_LOG_STORE])
