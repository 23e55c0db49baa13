"""What every catalog does with the columns that its database describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.schema import Column, Schema, Type
from tidegate.core.yaml_text import listed, mapped
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

Native = TypeVar("Native")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationColumns:
    """The columns of a relation that are read: those with an exact type, and the types of the others.

    Args:
        label: how people call the relation.
        unsupported: columns of which no column of a lake table can hold every value, and the source's word for each.
        excluded: columns that are not read.
        as_text: those without an exact type that `columns: {name: text}` reads.
    """

    label: str
    columns: tuple[Column, ...]
    unsupported: Mapping[str, str]
    excluded: tuple[str, ...]
    as_text: tuple[str, ...]

    def schema(self) -> Schema:
        """The columns.

        Raises:
            SchemaRefused: names every column that is not supported, and the lines that read or leave out all of them.
        """
        if self.unsupported:
            first = next(iter(self.unsupported))
            raise SchemaRefused(
                f"{self.label}: no column type of a lake table can store these columns exactly: {_named(self)}",
                hint=_advice(self),
                column=first,
                columns=tuple(self.unsupported),
            )
        return Schema(columns=self.columns, excluded=self.excluded)


def described(
    label: str,
    natives: Sequence[tuple[str, Native]],
    selection: ColumnSelection,
    column_of: Callable[[str, Native, str | None], Column | str],
    *,
    as_text: Collection[str] | None = None,
) -> RelationColumns:
    """The columns that a selection reads, each as the dialect maps it.

    Args:
        natives: every column of the relation by name, and what the database says of it.
        column_of: the column of a name, its description and the type that is stated for it; the source's word for its
            type where there is none that keeps every value.
        as_text: the words of types that `columns: {name: text}` reads; None for every type.

    Raises:
        SchemaRefused: no columns, two names that Spark cannot tell apart, or a stated type that would change values.
        ConfigError: a column is named that is not there.
    """
    names = [name for name, _ in natives]
    if not names:
        raise SchemaRefused(f"{label} has no columns", hint="Name another table, or leave this one out.")
    taken = selection.of(label, names)
    _refuse_same_names(label, [name for name in names if name in taken])
    columns, unsupported = [], {}
    for name, native in natives:
        if name in taken:
            found = column_of(name, native, selection.types.get(name))
            if isinstance(found, Column):
                columns.append(found)
            else:
                unsupported[name] = found
    return RelationColumns(
        label=label,
        columns=tuple(columns),
        unsupported=unsupported,
        excluded=tuple(name for name in names if name not in taken),
        as_text=tuple(name for name, word in unsupported.items() if as_text is None or word in as_text),
    )


def declared(
    name: str, native: tuple[str, bool], override: str | None, type_of: Callable[[str], Type | None], product: str
) -> Column | str:
    """The column of a database that declares every type exactly; its word for a type that keeps no exact values.

    Args:
        native: that word, and whether NULL is allowed.
        override: the type that the project states, which can only be the same.
        type_of: the type of a word; None where there is none.

    Raises:
        SchemaRefused: another type is stated; the hint says how to cast it.
    """
    word, nullable = native
    kind = type_of(word)
    if override is not None and parse_type(name, override) != kind:
        raise SchemaRefused(
            f"column {name!r} of type {word} cannot be read as {override!r}: {product} already declares types exactly",
            hint=f'Cast it in the source: `{{query: "SELECT CAST({name} AS …) AS {name} FROM …"}}`.',
            column=name,
        )
    return word if kind is None else Column(name=name, type=kind, nullable=nullable, native=word)


def by_table(rows: Sequence[Sequence[str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns of each table, of rows with schema, table and column; their order is kept."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for schema, table, column in rows:
        found[schema, table] = (*found.get((schema, table), ()), column)
    return found


def _refuse_same_names(label: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.get(name.lower())) is not None:
            raise SchemaRefused(
                f"{label} has two columns that Spark cannot tell apart: {other!r} and {name!r}",
                hint=f"Rename one in a `query:`, as by `AS {name}_2`"
                + (f", or leave it out with `source: {{exclude: {listed([name])}}}`." if other != name else "."),
            )
        seen[name.lower()] = name


def _named(found: RelationColumns) -> str:
    return ", ".join(f"{name!r} ({native})" for name, native in found.unsupported.items())


def _advice(found: RelationColumns) -> str:
    leave_out = f"leave them out with `source: {{exclude: {listed(found.unsupported)}}}`"
    if not found.as_text:
        return f"Cast them in a `query:`, or {leave_out}."
    texts = mapped(dict.fromkeys(found.as_text, "text"))
    others = [name for name in found.unsupported if name not in found.as_text]
    if not others:
        return f"Read them as text with `source: {{columns: {texts}}}`, or {leave_out}."
    return f"Use `source: {{columns: {texts}, exclude: {listed(others)}}}`, or cast them in a `query:`."
