"""The partition ledger of a table: the checksum of each partition as it was loaded.

The registry keeps the ledger. The position in the table's commit has only its sum and digest, by which a lost or
outdated ledger is detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.changes import Part
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One partition as it was loaded.

    Args:
        quick: the source engine's own hash of the same rows; None if it was not computed.
    """

    fingerprint: Fingerprint
    quick: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The partitions of one table by label; a partition that is not there holds no rows.

    Args:
        files: the manifest of a table that is loaded from files.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    files: Manifest = field(default_factory=Manifest)

    @property
    def total(self) -> Fingerprint:
        """The fingerprint of all rows of the table: fingerprints of disjoint sets add up."""
        return sum((entry.fingerprint for entry in self.entries.values()), Fingerprint())

    @property
    def digest(self) -> str:
        """Changes when a label or a fingerprint does.

        Example:
            >>> Ledger().digest == Ledger(entries={"1": Entry(fingerprint=Fingerprint(rows=1))}).digest
            False
        """
        lines = (f"{label}\t{entry.fingerprint}" for label, entry in sorted(self.entries.items()))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def loaded(self, parts: Iterable[Part]) -> Ledger:
        """The ledger once these parts are in the table as the source holds them."""
        entries = dict(self.entries)
        for part in parts:
            if part.fingerprint is None or not part.fingerprint.rows:
                entries.pop(part.slice.label, None)
            else:
                entries[part.slice.label] = Entry(fingerprint=part.fingerprint, quick=part.quick)
        return Ledger(entries=entries)

    def voucher(self) -> dict[str, Any]:
        """The sum and digest that the commit's position carries."""
        return {"total": str(self.total), "ledger": self.digest}

    def vouched(self, state: Mapping[str, Any]) -> bool:
        """Whether a commit's position vouches for this ledger."""
        return state.get("ledger") == self.digest
