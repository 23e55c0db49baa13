"""The table that says what the kit has created in a schema, so that nobody's table is removed for its name.

Its own name holds a random number, and it is created before anything else. A row follows what it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import uuid4

from tidegate.core.ports.dialect import Dialect
from tidegate_scenarios.certification import Certification, Scratch
from tidegate_scenarios.source_tables import PREFIX, SourceTable

NAME = re.compile(rf"{PREFIX}certify_[0-9a-f]{{32}}")
SCHEMA = "the schema"
"""What a marker calls the schema itself, if it was created."""


class Marker:
    """What one certification has created, in the database and here: this process may lose the database.

    `made` are the names, in the order in which they were created, the marker's own among them.
    """

    def __init__(self) -> None:
        self.name = f"{PREFIX}certify_{uuid4().hex}"
        self.made: list[str] = []
        self._table: SourceTable | None = None

    def create(self, kit: Certification, dialect: Dialect, scratch: Scratch, *, schema: bool) -> None:
        """The table. `schema` says that the schema was created for it."""
        self._table = _table(self.name, kit, dialect, scratch)
        self._table.create()
        self.made.append(self.name)
        if schema:
            self.record(SCHEMA)

    def record(self, name: str) -> None:
        """Says of what was created now that it is the kit's."""
        if name in self.made:
            return
        self.made.append(name)
        if self._table is not None:
            number, kit = len(self.made), self._table.kit
            self._table.insert({"id": (str(number), number), "made": (kit.string(name), name)})


def marked(kit: Certification, dialect: Dialect, scratch: Scratch, found: Sequence[str]) -> tuple[str, ...]:
    """What the markers among the contents of a schema prove to be the kit's, the markers first; as a rule nothing."""
    markers = [name for name in found if NAME.fullmatch(name)]
    made = list(markers)
    for name in markers:
        table = _table(name, kit, dialect, scratch).sql
        rows = scratch.execute(f"SELECT {dialect.quote('made')}, {dialect.quote('id')} FROM {table}")
        made += [str(row[0]) for row in sorted(rows, key=lambda row: int(row[1]))]
    if markers:
        made += [name for log in kit.logs for name in log.tables]
    return tuple(made)


def _table(name: str, kit: Certification, dialect: Dialect, scratch: Scratch) -> SourceTable:
    columns = {"id": kit.integer, "made": kit.text}
    return SourceTable(name=name, kit=kit, dialect=dialect, scratch=scratch, columns=columns)
