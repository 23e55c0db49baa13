"""Which columns of a source are read, and as which types; stated under `source:` as `include`, `exclude` and `columns`.

What is left out is never read, compared, hashed or written, and never counts as a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from tidegate.core.schema import Schema
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSelection:
    """The columns of a source that a stream reads.

    Args:
        include: only these; all of them where it is None. A name with `*` or `?` stands for every column that matches.
        exclude: not these, even where `include` names them.
        types: exact types by column name, as the project states them.

    Raises:
        ConfigError: `include` names no column, which could be meant as all or as none.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.include == ():
            raise ConfigError("include: must name at least one column; leave it out to read all of them")

    def takes(self, name: str) -> bool:
        included = self.include is None or any(_matches(name, each) for each in self.include)
        return included and not any(_matches(name, each) for each in self.exclude)

    @property
    def whole(self) -> bool:
        """Whether every column is read."""
        return self.include is None and not self.exclude

    def of(self, label: str, names: Sequence[str]) -> tuple[str, ...]:
        """The names that are read, in order.

        Args:
            label: how people call the source.
            names: of all its columns.

        Raises:
            ConfigError: a column is named that the source does not have, which may be the one that must not be read
                under its right name; a type is stated for one that is left out; or no column is left.
        """
        for key, stated in (("include", self.include or ()), ("exclude", self.exclude), ("columns", tuple(self.types))):
            for name in stated:
                if name not in names and (key == "columns" or not _is_pattern(name)):
                    raise ConfigError(
                        f"{key}: {label} has no column {name!r}; {suggest(name, names)}",
                        hint=f"Correct `source: {{{key}: …}}` in tidegate.yaml, then run `tidegate check --source`.",
                        column=name,
                    )
        taken = tuple(name for name in names if self.takes(name))
        unread = next((name for name in self.types if name not in taken), None)
        if unread is not None:
            raise ConfigError(
                f"columns: a type is stated for {unread!r}, which `include` or `exclude` leaves out", column=unread
            )
        if names and not taken:
            raise ConfigError(f"include and exclude leave no column of {label}; it has {', '.join(names)}")
        return taken

    def applied(self, label: str, schema: Schema) -> Schema:
        """The schema with the columns that are read; it knows which were left out. Raises as `of`."""
        taken = frozenset(self.of(label, (*schema.names, *schema.excluded)))
        return replace(
            schema,
            columns=tuple(column for column in schema if column.name in taken),
            excluded=(*schema.excluded, *(name for name in schema.names if name not in taken)),
        )

    def refused(self, used: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """A sentence for each column that the stream needs and the selection leaves out.

        Args:
            used: the columns by the key of the project file that names them.
        """
        for key, names in used.items():
            for name in names:
                if not self.takes(name):
                    yield (
                        f"{key}: names {name!r}, which `source: {{include: …, exclude: …}}` leaves out; a column that "
                        f"the stream needs must be read"
                    )


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or (_is_pattern(pattern) and fnmatchcase(name, pattern.replace("[", "[[]")))
