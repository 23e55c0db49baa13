"""What every catalog does with the columns that its database describes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidegate.core.ports.dialect import Relation
from tidegate.errors import ConfigError, SchemaRefused


def check_names(relation: Relation, names: Sequence[str], overrides: Collection[str]) -> None:
    """Refuses columns that Spark cannot tell apart, and stated types of columns that are not there.

    Raises:
        SchemaRefused: two names differ in nothing or in case alone.
        ConfigError: an override of a column that the relation does not have.
    """
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.get(name.lower())) is not None:
            raise SchemaRefused(
                f"{relation.label} has two columns that Spark cannot tell apart: {other!r} and {name!r}",
                hint="Rename one of them with `source: {query: 'SELECT … AS …'}`.",
            )
        seen[name.lower()] = name
    for name in overrides:
        if name not in names:
            raise ConfigError(f"columns: {relation.label} has no column {name!r}; it has {', '.join(names)}")
