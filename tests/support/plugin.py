"""A package of somebody else with one plugin: the example of a page, as printed, in a folder that Python can import."""

import re
import subprocess
import sys
from pathlib import Path


def installed_package(folder: Path, *, name: str, text: str, entries: dict[str, dict[str, str]]) -> None:
    """Writes a module with plugins, by group and kind the class, and what says that it is installed."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    told = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    (about / "METADATA").write_text(told, encoding="utf-8")
    lines = []
    for group, kinds in entries.items():
        lines += [f"[tidegate.{group}]", *(f"{kind} = {name}:{of}" for kind, of in kinds.items())]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def install(folder: Path, *, page: Path, name: str, entry: str) -> None:
    """Writes the first Python block of the page as a module, and what says that it is installed.

    Args:
        entry: the plugin as an entry point: `[tidegate.strategies] nightly = nightly_plugin:Nightly`.
    """
    example = re.search(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    (folder / f"{name}.py").write_text(example[1], encoding="utf-8")
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    told = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    (about / "METADATA").write_text(told, encoding="utf-8")
    (about / "entry_points.txt").write_text(entry.replace("] ", "]\n") + "\n", encoding="utf-8")


def tidegate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in that folder, where the package is installed."""
    code = f"import sys; sys.path.insert(0, '.'); from tidegate.cli.app import main; sys.exit(main({list(words)!r}))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
