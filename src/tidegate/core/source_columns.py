"""Which column of its source each column of a table is, as the table's own commit says it.

Sources that identify columns by more than a name call a renamed column what they called it before. So does the table:
by Iceberg's field ids, or by Delta's physical names. What ties the two together is written with every load. Of other
sources it is the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidegate.core.schema import ColumnIds, Schema


class Use(StrEnum):
    """What a load does with a column of the source."""

    LOADED = "loaded"
    PARTLY = "partly"
    """It is loaded, and only loads of some rows, such as a chunk of a backfill, have done so yet."""
    LEFT_OUT = "left_out"
    """The contract does not load it, or keeps its values elsewhere."""
    EXCLUDED = "excluded"
    """The project does not read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of the source.

    Args:
        id: what the source calls it, whatever its name is.
        name: its name there, when it was looked at.
        target: the column of the table that holds its values; None for none.
        type: the stored type of the values that were loaded; None if there are none, or no load said so.
    """

    id: str
    name: str
    target: str | None
    use: Use = Use.LOADED
    type: str | None = field(default=None, compare=False)

    @property
    def loaded(self) -> bool:
        """Whether loads write it."""
        return self.use in (Use.LOADED, Use.PARTLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumns:
    """The columns of the relation that a table was loaded from, read or not.

    Args:
        relation: what the source calls the relation, whatever its name is; the ids of another one mean nothing here.
            Empty where only names tell columns apart.
        kept: columns of the table that hold values of none of them. Others may come before the next commit: a load that
            stops may have added its own.
    """

    relation: str
    columns: tuple[SourceColumn, ...]
    kept: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[SourceColumn]:
        return iter(self.columns)

    @classmethod
    def of(cls, source: Schema, before: SourceColumns | None, table: Schema) -> SourceColumns:
        """Those of a load. What was known by ids stays known where a load is told names alone.

        Args:
            source: the columns that it loads.
            before: those of the load before it.
            table: the columns that the table will have, by the names that it will have.
        """
        if source.ids is None and before is not None and before.relation:
            return before
        ids = source.ids or ColumnIds(relation="", columns={name: name for name in source.names})
        known = before.by_id if before is not None and before.relation == ids.relation else {}
        taken = {column.name: column.type.spark for column in source}
        found = []
        for name, number in ids.columns.items():
            if name in taken:
                found.append(SourceColumn(id=number, name=name, target=name, type=taken[name]))
                continue
            use = Use.LEFT_OUT if ids.takes(name) else Use.EXCLUDED
            old = known[number].target if number in known else name
            there = old is not None and old not in taken and table.find(old) is not None
            found.append(SourceColumn(id=number, name=name, target=old if there else None, use=use))
        kept = set(table.names) - {each.target for each in found}
        return cls(relation=ids.relation, columns=tuple(found), kept=tuple(sorted(kept)))

    def of_some_rows(self, before: SourceColumns | None) -> SourceColumns:
        """The same of a load after which other rows may lack the columns that it brings."""
        whole = {each.id for each in before or () if each.use is Use.LOADED}
        columns = (
            replace(each, use=Use.PARTLY) if each.use is Use.LOADED and each.id not in whole else each for each in self
        )
        return replace(self, columns=tuple(columns))

    def find(self, name: str, source: Schema) -> SourceColumn | None:
        """The column that has that name at the source now; one that was dropped and added again is the same."""
        ids = source.ids
        number = ids.columns.get(name) if ids is not None and ids.relation == self.relation else None
        found = self.by_id.get(number) if number is not None else None
        return found or next((each for each in self if each.name == name), None)

    def held(self, name: str) -> bool:
        """Whether the table had a column of that present name when the load was committed."""
        return name in self.kept or any(each.target == name for each in self)

    @property
    def by_id(self) -> Mapping[str, SourceColumn]:
        """The columns by what the source calls them."""
        return {column.id: column for column in self}

    @property
    def ids(self) -> ColumnIds | None:
        """What the source calls the columns of the table, by their names there; None where only names tell."""
        targets = {each.target: each.id for each in self if each.target is not None}
        return ColumnIds(relation=self.relation, columns=targets) if self.relation else None

    def to_json(self, ids: Mapping[str, str]) -> str:
        """One line, in which the table's columns are called what the format calls them.

        Args:
            ids: that, by the table's present names.
        """
        rows = [[each.id, each.name, ids.get(each.target or ""), each.use, *filter(None, [each.type])] for each in self]
        kept = [ids[name] for name in self.kept if name in ids]
        return json.dumps({"relation": self.relation, "columns": rows, "kept": kept}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, ids: Mapping[str, str]) -> SourceColumns | None:
        """The inverse of `to_json`, by the names that the table has by now; None of what cannot be read.

        Example:
            >>> one = SourceColumn(id="2", name="old", target="old")
            >>> text = SourceColumns(relation="t", columns=(one,)).to_json({"old": "7"})
            >>> SourceColumns.from_json(text, {"new": "7"}).columns[0].target
            'new'
        """
        names = {number: name for name, number in ids.items()}
        try:
            values: dict[str, Any] = json.loads(text)
            columns = tuple(
                SourceColumn(id=number, name=name, target=names.get(target), use=Use(use), type=next(iter(kind), None))
                for number, name, target, use, *kind in values["columns"]
            )
            relation = str(values["relation"])
            kept = tuple(sorted(names[number] for number in values.get("kept", ()) if number in names))
        except (ValueError, TypeError, KeyError):
            return None
        # What was recreated under its name is the same column of the table.
        free = ids.keys() - {each.target for each in columns} - set(kept)
        columns = tuple(
            replace(each, target=each.name) if each.loaded and each.target is None and each.name in free else each
            for each in columns
        )
        return cls(relation=relation, columns=columns, kept=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How the columns of a source that were loaded before are called now.

    Args:
        renames: columns that are loaded and that the table has by another name: new names to the table's.
        taken: the new names of them that another column of the table had when the last load was committed.
        moved: every name that a column was loaded by, to the name that it has now, where they differ.
        problem: why a load must not go on, as a sentence without its end; None where it may.
        column: the column that this is about.
        hidden: columns that were loaded, and that are left out by the names that they have now.
    """

    renames: Mapping[str, str]
    taken: frozenset[str]
    moved: Mapping[str, str]
    problem: str | None = None
    column: str = ""
    hidden: Mapping[str, str]


def follow(before: SourceColumns | None, source: Schema, table: Schema) -> Followed | None:
    """The columns of the source that are loaded, by what the source calls them; None where only names tell.

    Args:
        source: the columns that a load reads.
        before: those of the load before it.
        table: the columns that the table has.
    """
    ids = source.ids
    if before is None or ids is None or before.relation != ids.relation:
        return None
    known, now = before.by_id, {number: name for name, number in ids.columns.items()}
    moved = {each.name: now[each.id] for each in before if each.id in now and now[each.id] != each.name}
    renames = {
        name: old.target
        for name in source.names
        if (old := known.get(ids.columns.get(name, ""))) and old.target not in (None, name) and table.find(old.target)
    }
    problem = next(filter(None, (_problem(name, before, source, table) for name in source.names)), None)
    hidden = {
        each.name: now[each.id]
        for each in before
        if each.loaded and each.name in moved and source.find(now[each.id]) is None
    }
    return Followed(
        renames=renames,
        taken=frozenset(name for name in renames if before.held(name) and table.find(name) is not None),
        moved=moved,
        problem=problem[1] if problem else None,
        column=problem[0] if problem else "",
        hidden=hidden,
    )


def _problem(name: str, before: SourceColumns, source: Schema, table: Schema) -> tuple[str, str] | None:
    """The column, and why it must not be loaded, if it must not."""
    ids = source.ids
    if ids is None or (number := ids.columns.get(name)) is None:
        return None
    now = {each: name for name, each in ids.columns.items()}
    was = before.by_id.get(number)
    if was is not None and was.name != name and was.use is Use.EXCLUDED and not ids.takes(was.name):
        return name, f"{name!r} at the source is the column that was {was.name!r}, which the project does not read"
    if was is not None and was.target not in (None, name):
        return None  # the names of two columns that are loaded are compared with the table's
    owner = next((each for each in before if each.target == name and each.id != number), None)
    if owner is not None and owner.id in now:
        return name, f"{name!r} at the source is another column than before: that one is {now[owner.id]!r} now"
    if was is not None and was.name != name and was.target is None and before.held(name) and table.find(name):
        return name, f"{name!r} at the source is the column that was {was.name!r}, and the table has another {name!r}"
    return None
