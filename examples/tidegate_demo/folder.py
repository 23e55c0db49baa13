"""The folder of a demo, and how it is reset.

Never deletes a file that the demo did not create.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tidegate.errors import ConfigError

MARKER = ".tidegate-demo"
MARKER_TEXT = "This folder was created by `tidegate demo`, which resets it when run again.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The demo's project: everything it makes, by name."""

    path: Path

    @property
    def marker(self) -> Path:
        """Tells that the folder is the demo's; it stays as long as the folder does."""
        return self.path / MARKER

    @property
    def database(self) -> Path:
        """The source."""
        return self.path / "airline.db"

    @property
    def project_file(self) -> Path:
        """The project, commented for those who go on with it."""
        return self.path / "tidegate.yaml"

    @property
    def own(self) -> tuple[Path, ...]:
        """All that the demo and its loads make, and all that a new start removes."""
        journals = tuple(self.database.with_name(self.database.name + end) for end in ("-journal", "-wal", "-shm"))
        return (self.path / "warehouse", self.path / ".tidegate", self.database, *journals, self.project_file)

    def prepare(self) -> bool:
        """Makes the folder, or starts it over; True when there was a demo before.

        Raises:
            ConfigError: the folder holds something and has no mark of the demo, or cannot be written.
        """
        try:
            again = self._claim()
            for path in self.own:
                _remove(path)
            self.marker.write_text(MARKER_TEXT, encoding="utf-8")
            self.project_file.write_text(files("tidegate_demo").joinpath("project.yaml").read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"the demo cannot use the folder {self.path}: {error.strerror}",
                hint="Use another folder: `tidegate demo DIR`.",
            ) from error
        return again

    def refuse_stranger(self) -> None:
        """Refuses a folder that does not contain a demo. Raises ConfigError."""
        if not self._marked:
            raise ConfigError(f"{self.path} does not contain a demo", hint=f"Create one: `tidegate demo {self.path}`.")

    @property
    def _marked(self) -> bool:
        return self.marker.is_file() and not self.marker.is_symlink()

    def _claim(self) -> bool:
        if self.path.is_dir() and any(self.path.iterdir()):
            if self._marked:
                return True
            raise ConfigError(
                f"{self.path} is not empty and was not created by the demo, so the demo leaves it alone",
                hint="Use another folder: `tidegate demo DIR`.",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
