"""Notices that the project file, or a file of variables beside it, was changed."""

from __future__ import annotations

from pathlib import Path

from tidegate.config.environment import FILE, env_file

EVERY = 2.0
"""Seconds between two looks."""
AGAIN, AT_MOST = 30.0, 600.0
"""Seconds until a file that was not valid is tried again, since its source may have been down: at first, doubled each
time, and at most."""


class ProjectFile:
    """The files as they were last looked at."""

    def __init__(self, file: Path, profile: str | None) -> None:
        profiles = [env_file(file.parent, profile)] if profile is not None else []
        self._files = (file, file.parent / FILE, *profiles)
        self._seen = self._look()
        self._at = 0.0
        self._due: float | None = None
        self._after = AGAIN
        self.again = False

    def changed(self, now: float) -> bool:
        """Whether they differ from the last time that this said so; while the file is gone it has not changed.

        Also once a file that was refused is due again; `again` then says so.
        """
        if now - self._at < EVERY:
            return False
        self._at = now
        found = self._look()
        if found[0] is None:
            return False
        if found != self._seen:
            self._seen, self._due, self._after, self.again = found, None, AGAIN, False
            return True
        self.again = self._due is not None and now >= self._due
        if self.again:
            self._due = None
        return self.again

    def refused(self, now: float) -> None:
        """What was changed is not valid now."""
        self._due, self._after = now + self._after, min(self._after * 2, AT_MOST)

    def _look(self) -> tuple[bytes | None, ...]:
        return tuple(each.read_bytes() if each.is_file() else None for each in self._files)
