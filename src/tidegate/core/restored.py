"""Protocol for file sources that can return older rows of a key from files loaded earlier.

Used when a load removes the newest row of a key.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.slices import Files, Keys


@runtime_checkable
class HasOlderFiles(Protocol):
    """A probe that can be asked for files other than the chosen ones."""

    def restored(self, files: Files, keys: Keys, latest: Latest) -> Fingerprint:
        """What the `older` files of a slice hold of these keys: of each the latest row.

        Args:
            latest: its order has `core.manifest.LOADED`.
        """
