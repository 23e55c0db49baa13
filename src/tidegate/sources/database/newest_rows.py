"""Detects a database that was restored to an older state, by the newest rows seen in an earlier run.

A column that increases with every change never decreases for a row, unless the database was restored. Deleted rows
prove nothing. Never stores a string, which may be personal data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from tidegate.core.bounds import earlier
from tidegate.core.ports.dialect import Session
from tidegate.core.schema import Kind
from tidegate.dialects.shared.statements import Statements

LIMIT = 20
KEYS = frozenset({Kind.INTEGER, Kind.UUID, Kind.DATE})
# A column whose type is altered may round its values.
ROUNDING = timedelta(seconds=1)
TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRows:
    """The rows with the greatest cursors at one moment.

    Args:
        cursor: the column that grows with every change.
        key: the columns of a unique index, none of them NULL.
        types: of the key's columns and the cursor, as text; values of other types are not compared.
        rows: canonical texts, the key's and then the cursor's, the greatest cursor first.
    """

    cursor: str
    key: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> NewestRows | None:
        """The inverse of `kept`."""
        return None if kept is None else cls(**kept)

    @property
    def kept(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)

    def at(self, session: Session, statements: Statements, upto: str, before: NewestRows | None) -> NewestRows:
        """The same with the rows of now.

        Args:
            before: those of an earlier moment; rows below all of them are not looked at.
        """
        same = before is not None and replace(before, rows=self.rows) == self
        after = earlier(before.rows[-1][-1], TICK) if before is not None and same and before.rows else None
        rows = session.rows(statements.newest(self.cursor, self.key, after, upto, LIMIT))
        return replace(self, rows=[list(row) for row in rows])

    def regressed_row(self, session: Session, statements: Statements, late: timedelta) -> str | None:
        """Which of the rows has an older cursor now, in a sentence; None for none.

        Args:
            late: how far back a change may lie in one history.
        """
        if self.types != _types(statements, self.key, self.cursor):
            return None
        least = {
            tuple(key): floor for *key, text in self.rows if (floor := earlier(text, max(late, ROUNDING))) is not None
        }
        for *key, now in session.rows(statements.below(self.cursor, self.key, least)) if least else ():
            named = ", ".join(f"{name} = {value}" for name, value in zip(self.key, key, strict=True))
            known = next(text for *other, text in self.rows if other == key)
            return (
                f"the source does not continue what was loaded: of the row with {named}, {self.cursor} was {known} and "
                f"is {now}. Either the source was restored, or {self.cursor} was set back, for example by a session in "
                "another time zone or by a clock that was put back; changes below the position would not be found"
            )
        return None


def newest_by(statements: Statements, cursor: str, unique: Iterable[frozenset[str]]) -> NewestRows | None:
    """No rows yet, by a key that is not personal; None where there is no such key, or no order of the cursor.

    Args:
        unique: the columns of every unique index.
    """
    keys = [sorted(names) for names in unique if _is_plain(statements, names) and names != {cursor}]
    if not keys or not statements.has_order(cursor):
        return None
    key = min(keys, key=lambda names: (len(names), names))
    return NewestRows(cursor=cursor, key=key, types=_types(statements, key, cursor), rows=[])


def _types(statements: Statements, key: Sequence[str], cursor: str) -> list[str]:
    columns = [statements.schema.find(name) for name in (*key, cursor)]
    return [str(column.type) if column is not None else "" for column in columns]


def _is_plain(statements: Statements, names: Iterable[str]) -> bool:
    columns = [None if name in statements.casts else statements.schema.find(name) for name in names]
    apart = statements.dialect.tells_apart
    return all(each is not None and not each.nullable and each.type.kind in KEYS and apart(each) for each in columns)
