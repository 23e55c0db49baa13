"""What a fresh machine lacks is told in one clear line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"
TOOLS = ("sh", "sed", "head", "id")


@pytest.fixture
def machine(tmp_path):
    """A machine with the tools of every system, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def told(machine: Path, script: str, **environ: str) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", str(SCRIPTS / script)],
        cwd=machine.parent,
        env={"PATH": str(machine), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stderr


def test_without_python(machine):
    assert told(machine, "setup.sh") == (
        1,
        "tidegate: needs Python 3.11 or later: apt-get install python3 python3-venv\n",
    )


def test_with_an_old_python_only(machine):
    program(machine, "python3", "exit 1")
    assert "needs Python 3.11 or later" in told(machine, "setup.sh")[1]


def test_without_java(machine):
    program(machine, "python3", f'exec {sys.executable} "$@"')
    assert told(machine, "setup.sh") == (
        1,
        "tidegate: needs Java 17 or later: apt-get install openjdk-17-jre-headless\n",
    )


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "16"])
def test_with_an_old_java(version, machine):
    program(machine, "python3", f'exec {sys.executable} "$@"')
    program(machine, "java", f"echo 'openjdk version \"{version}\" 2020-01-01' >&2")
    assert "needs Java 17 or later" in told(machine, "setup.sh")[1]


def test_java_home_counts_first(machine):
    program(machine, "python3", f'exec {sys.executable} "$@"')
    program(machine, "java", "echo 'openjdk version \"17.0.2\"' >&2")
    assert "needs Java 17 or later" in told(machine, "setup.sh", JAVA_HOME="/nowhere")[1]


def test_what_is_installed_is_compiled(machine):
    """Installers leave that to the first import, which keeps nothing where PYTHONDONTWRITEBYTECODE is set."""
    program(machine, "python3", f'exec {sys.executable} "$@"')
    program(machine, "java", "echo 'openjdk version \"17.0.2\"' >&2")
    program(machine, "uv", 'echo "$@" >&2; exit 7')
    code, words = told(machine, "setup.sh")
    assert (code, "sync" in words.split(), "--compile-bytecode" in words.split()) == (7, True, True)


def test_the_scripts_are_plain_shell():
    for script in SCRIPTS.glob("*.sh"):
        subprocess.run(["/bin/sh", "-n", str(script)], check=True, timeout=240)


def test_the_image_is_built_from_every_file_that_the_package_links_to():
    root = SCRIPTS.parent
    links = [path.resolve() for path in (root / "src").rglob("*") if path.is_symlink()]
    wanted = {str(path.relative_to(root)) for path in links if not path.is_relative_to(root / "src")}
    copied = (root / "Dockerfile").read_text(encoding="utf-8")
    kept = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert wanted
    assert [name for name in wanted if f"COPY {name} {name}\n" not in copied or f"!{name}" not in kept] == []
