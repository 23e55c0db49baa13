"""Notices that the project file, or a file of variables beside it, was changed."""

from __future__ import annotations

from pathlib import Path

from tidegate.config.environment import FILE, env_file

EVERY = 2.0
"""Seconds between two looks."""


class ProjectFile:
    """The files as they were last looked at."""

    def __init__(self, file: Path, profile: str | None) -> None:
        profiles = [env_file(file.parent, profile)] if profile is not None else []
        self._files = (file, file.parent / FILE, *profiles)
        self._seen = self._look()
        self._at = 0.0

    def changed(self, now: float) -> bool:
        """Whether they differ from the last time that this said so; while the file is gone it has not changed."""
        if now - self._at < EVERY:
            return False
        self._at = now
        found = self._look()
        if found[0] is None or found == self._seen:
            return False
        self._seen = found
        return True

    def _look(self) -> tuple[bytes | None, ...]:
        return tuple(each.read_bytes() if each.is_file() else None for each in self._files)
