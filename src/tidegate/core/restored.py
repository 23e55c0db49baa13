"""What a probe of files answers about rows that come back from files loaded earlier.

Asked by the engine when a load removes the later row of a key. Holds a protocol only.
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
