"""dbt for tests, in an environment of its own: its dependencies contradict those of the project.

Asked for by the tests of dbt, marked `servers`. Made once from the package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tidegate.spark import jars

PACKAGES = ("dbt-core==1.11.16", "dbt-trino==1.11.0")
ROOT = Path(__file__).parents[2]


def dbt(folder: Path, *words: str, profiles: Path | None = None) -> subprocess.CompletedProcess[str]:
    """One command of dbt in a project's folder."""
    command = [str(environment() / "bin/dbt"), "--no-use-colors", *words, "--project-dir", str(folder)]
    command += ["--profiles-dir", str(profiles or folder)]
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_TARGET_PATH": str(folder / "target")}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env={**environ, **quiet}
    )


def environment() -> Path:
    """The environment, made once."""
    folder = jars.cache_folder().parent / "servers" / "-".join(each.replace("==", "-") for each in PACKAGES)
    if (folder / "bin/dbt").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv") or str(_tools() / "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, timeout=120)
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *PACKAGES]
    subprocess.run(install, check=True, timeout=600, cwd=tempfile.gettempdir())
    return folder


def _tools() -> Path:
    """Where `make setup` keeps uv: beside the environment that runs the tests."""
    return Path(sys.prefix).parent / ".tools/bin"
