"""The URLs of the package's metadata: those of the repository that it is built in, so that a fork's say the fork.

Source: hatchling's metadata hooks. A source distribution keeps what it was built with.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# `https://user:secret@host/owner/name.git`, `ssh://git@host:22/owner/name`, `git@host:owner/name.git`; no files.
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?([\w.-]+)(?::\d+)?/|[\w-]+@([\w.-]+):)(\w[\w./-]*?)(?:\.git)?/?"
)
PAGES = {
    "Homepage": "",
    "Repository": "",
    "Documentation": "/blob/HEAD/docs/index.md",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Issues": "/issues",
}


def address(remote: str) -> str | None:
    """The page of a repository, without login; None for a folder of a machine.

    Example:
        >>> address("git@host.example:owner/name.git"), address("/srv/name.git")
        ('https://host.example/owner/name', None)
    """
    found = _REMOTE.fullmatch(remote.strip())
    return f"https://{found[1] or found[2]}/{found[3]}" if found else None


class ProjectUrls(MetadataHookInterface):
    """Fills `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """None where the remote `origin` is none, or a folder."""
        try:
            command = ["git", "-C", self.root, "remote", "get-url", "origin"]
            remote = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout  # noqa: S603 - git, found as users find it
        except OSError:
            remote = ""
        home = address(remote)
        metadata["urls"] = {name: f"{home}{page}" for name, page in PAGES.items()} if home else {}
