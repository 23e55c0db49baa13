"""Breaks one decision or guarantee at a time, in a copy of the project, and tells which test of `make test` notices it.

`python -m mutants [NUMBER …] [--quick]` runs the mutants of `table.MUTANTS`, or those of the given numbers: first the
tests that probably notice each, then, unless `--quick` is given, all others. Ends with 1 if no test noticed one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "packages", "examples", "docs", "scripts", "bench", "deploy", ".ci", ".github")
LINKED = (".venv", ".tools")
SELECTED = ("-x", "-q", "-m", "not slow")
ALL = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--ignore=tests/docs")
NOTICED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


def copy_to(root: Path) -> None:
    """Copies what tests need of the project, and links its environment."""
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, root / path.name, symlinks=True)
        elif path.name in LINKED:
            (root / path.name).symlink_to(path.resolve())
        elif path.is_file() and path.name != ".git":
            shutil.copy2(path, root)


@contextmanager
def changed(root: Path, mutant: Mutant) -> Iterator[None]:
    """The copy with the mutant, and without it afterwards."""
    path, original = (folder / "src/tidegate" / mutant.file for folder in (root, ROOT))
    text = original.read_text("utf-8")
    if (count := text.count(mutant.text)) != 1:
        sys.exit(f"{mutant.file} has the text {count} times, not once: {mutant.text}")
    path.write_text(text.replace(mutant.text, mutant.changed), "utf-8")
    # Python compiles a file again if its size or its time in seconds has changed; of a mutant neither need have.
    os.utime(path, (0, 1 + MUTANTS.index(mutant)))
    yield
    shutil.copy2(original, path)


def noticed(root: Path, *tests: str) -> str | None:
    """The test that fails first; None if all pass."""
    path = os.pathsep.join(str(root / name) for name in ("src", "examples", "tests"))
    command = [sys.executable, "-m", "pytest", *SELECTED, *tests]
    environment = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    found = NOTICED.search(ran.stdout)
    # 2 if collecting fails, and where several processes stop after a failure.
    if ran.returncode not in (0, 1, 2) or (ran.returncode and not found):
        sys.exit(f"pytest {' '.join(tests)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return found[1] if ran.returncode and found else None


def named(mutants: Iterable[Mutant]) -> list[str]:
    """The files of the tests that probably notice these mutants."""
    return sorted({f"tests/{mutant.tests}" for mutant in mutants})


def survivors(root: Path, numbers: Sequence[int], tests: Sequence[str]) -> list[int]:
    """The mutants that none of these tests notices, or, without tests, none of those that the table names for it."""
    left = []
    if broken := noticed(root, *(tests or named(MUTANTS[number - 1] for number in numbers))):
        sys.exit(f"{broken} fails without a mutant")
    for number in numbers:
        mutant = MUTANTS[number - 1]
        with changed(root, mutant):
            test = noticed(root, *(tests or named([mutant])))
        print(f"{number:2} {mutant.file}: {mutant.breaks}: {f'killed by {test}' if test else 'SURVIVED'}", flush=True)
        left += [] if test else [number]
    return left


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="of the mutants to run, from 1 on")
    parser.add_argument("--quick", action="store_true", help="run only the tests that the table names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy_to(Path(folder))
        left = survivors(Path(folder), options.numbers or range(1, len(MUTANTS) + 1), ())
        if left and not options.quick:
            left = survivors(Path(folder), left, ALL)
    sys.exit(f"SURVIVED: {', '.join(map(str, left))}" if left else 0)
