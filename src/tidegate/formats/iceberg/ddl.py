"""DDL statements for Iceberg tables.

All names are quoted, and an unknown partition transform is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tidegate.core.ids import Target
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BOOLEAN, REPLACED, ChangeKind, Kind, Schema, SchemaChange
from tidegate.errors import ConfigError, SchemaRefused
from tidegate.formats.shared import statements
from tidegate.formats.shared.statements import column_text, evolved, folder, known, pairs, plain, problem_of
from tidegate.spark import sql

# Position deletes make small changes cheap; metadata files beyond the last few are of no use to any reader and
# would otherwise grow with the square of the number of loads.
PROPERTIES = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.merge.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.delete.isolation-level": "serializable",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest.min-count-to-merge": "20",
}
MEASURED = 100
# Without partitions there is nothing to bring together before a write: a shuffle less in each merge.
UNPARTITIONED = {f"write.{operation}.distribution-mode": "none" for operation in ("merge", "update", "delete")}
# Two partitions are written side by side by every task; bringing their rows together would leave the work to two.
HALVED = {**UNPARTITIONED, "write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}
_TRANSFORM = re.compile(r"(?P<word>[a-z]+)\((?:(?P<number>\d+)\s*,\s*)?(?P<column>.+)\)", re.DOTALL)
_PLAIN_WORDS = {
    word: plural for plural in ("years", "months", "days", "hours") for word in (plural, plural.removesuffix("s"))
}
_NUMBERED_WORDS = frozenset({"bucket", "truncate"})
VERSIONS = (2, 3)
UNFIT = frozenset({Kind.FLOAT, Kind.ARRAY})
_MOMENTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BINARY})
# Source: Iceberg specification, "Partition Transforms".
TRANSFORMED = {
    "years": _MOMENTS | {Kind.DATE},
    "months": _MOMENTS | {Kind.DATE},
    "days": _MOMENTS | {Kind.DATE},
    "hours": _MOMENTS,
    "bucket": _EXACT | _MOMENTS | {Kind.DATE},
    "truncate": _EXACT,
}

# Source: Iceberg, MetadataColumns.
RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


def refuse_reserved(schema: Schema) -> None:
    """Refuses columns that no reader of the table could name.

    Raises:
        SchemaRefused: a name that Iceberg has for what it knows of a row.
    """
    taken = [name for name in schema.names if name in RESERVED]
    if taken:
        raise SchemaRefused(
            f"the name {taken[0]!r} is reserved by Iceberg, so no column can have it",
            hint="Give the column another name at the source or under `source:`.",
            column=taken[0],
        )


def create(target: Target, schema: Schema, layout: Layout, location: str | None) -> str:
    """The statement that makes an empty table, with what the columns promise and say.

    Raises:
        ConfigError: the layout names a column or transform that there is not.
    """
    columns = ", ".join(map(column_text, schema))
    parts = [f"CREATE TABLE IF NOT EXISTS {sql.table(target)} ({columns}) USING iceberg"]
    if layout.partition_by:
        parts.append(f"PARTITIONED BY ({', '.join(partitions(layout.partition_by, schema))})")
    if location:
        parts.append(f"LOCATION {sql.string(location)}")
    properties = {
        "format-version": str(layout.format_version),
        **PROPERTIES,
        **distribution(layout.partition_by, schema),
        # Iceberg keeps bounds of the first hundred columns, unless it is told of others; those of the key spare a merge
        # the files that cannot hold a row of it.
        **{f"write.metadata.metrics.column.{name}": "truncate(16)" for name in schema.key if name in _late(schema)},
    }
    if schema.comment:
        parts.append(f"COMMENT {sql.string(schema.comment)}")
    parts.append(f"TBLPROPERTIES ({pairs(properties)})")
    return " ".join(parts)


def _late(schema: Schema) -> Sequence[str]:
    return schema.names[MEASURED:]


def distribution(partition_by: Sequence[str], schema: Schema) -> Mapping[str, str]:
    """The properties by which rows are not brought together before a write, where that would only cost.

    Example:
        >>> distribution(["id"], Schema(columns=()))
        {}
    """
    if not partition_by:
        return UNPARTITIONED
    column = schema.find(partition_by[0])
    return HALVED if len(partition_by) == 1 and column is not None and column.type == BOOLEAN else {}


def order(target: Target, schema: Schema, layout: Layout) -> str:
    """The statement that sorts the rows of each file.

    Sorted within a task only: a global order makes Spark run the source's query twice, once to sample it.

    Raises:
        ConfigError: a column that there is not.
    """
    wanted = ", ".join(sql.quote(_sortable(name, schema)) for name in layout.sort_by)
    distributed = "DISTRIBUTED BY PARTITION " if layout.partition_by else ""
    return f"ALTER TABLE {sql.table(target)} WRITE {distributed}LOCALLY ORDERED BY {wanted}"


def identifier(target: Target, schema: Schema) -> str | None:
    """The statement that names the key; None where a column of it may be NULL, or is of a type that no key may have.

    Source: Iceberg specification, "Identifier Field IDs": required columns, no float or double.
    """
    columns = [schema.find(name) for name in schema.key]
    if not columns or any(each is None or each.nullable or each.type.kind in UNFIT for each in columns):
        return None
    return f"ALTER TABLE {sql.table(target)} SET IDENTIFIER FIELDS {sql.names(schema.key)}"


def no_identifier(target: Target, names: Sequence[str]) -> str:
    """The statement by which these columns are no part of the key any more."""
    return f"ALTER TABLE {sql.table(target)} DROP IDENTIFIER FIELDS {sql.names(names)}"


def partitions(expressions: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Each `partition_by` as Spark writes it, its column quoted.

    Raises:
        ConfigError: not a column of the table and not a transform of one.

    Example:
        >>> from tidegate.core.schema import BIGINT, Column
        >>> partitions(["bucket(16, id)"], Schema(columns=(Column(name="id", type=BIGINT),)))
        ('bucket(16, `id`)',)
    """
    return tuple(_partition(expression, schema) for expression in expressions)


def layout_problems(layout: Layout, columns: Schema | None = None) -> Iterator[str]:
    """Why Iceberg has no such layout of these columns; of any columns if none are given.

    Source: Iceberg, `PartitionSpec.Builder`: of one column one transform of time, and one of each other kind.

    Example:
        >>> list(layout_problems(Layout(partition_by=("years(at)", "bucket(16, id)"))))
        []
    """
    if layout.format_version not in VERSIONS:
        yield f"format_version is {layout.format_version}; it must be {' or '.join(map(str, VERSIONS))}"
    if layout.deletion_vectors is not None:
        yield "deletion_vectors is a setting of Delta tables; an Iceberg table has them with format_version: 3"
    seen: dict[tuple[str, str], str] = {}
    for expression in layout.partition_by:
        found = _TRANSFORM.fullmatch(expression.strip())
        word, column = (found["word"], found["column"].strip()) if found else ("", expression.strip())
        if found is not None and not _understood(word, found["number"]):
            continue  # a column may have such a name
        kind = "time" if word in _PLAIN_WORDS else word
        other = seen.get((kind, column))
        seen[kind, column] = expression
        if other is not None:
            finer = " (the finer one also prunes by the other)" if kind == "time" else ""
            yield f"partition_by has both {other} and {expression}; Iceberg accepts only one of them{finer}"
    if columns is not None:
        for expression in layout.partition_by:
            yield from problem_of(lambda each=expression: _partition(each, columns))  # type: ignore[misc]
        for name in layout.sort_by:
            yield from problem_of(lambda each=name: _sortable(each, columns))  # type: ignore[misc]


def evolve(
    target: Target, changes: Sequence[SchemaChange], schema: Schema, *, key: Sequence[str] = ()
) -> Iterator[str]:
    """The statements that rename columns, add others, all in one, widen others, and let others be NULL.

    Args:
        key: the columns that identify a row of the table; one that may be NULL cannot be among them.

    Raises:
        InternalError: a change that is none of these.
    """
    was = {each.column: each.old or "" for each in changes if each.kind is ChangeKind.RENAME}
    leaving = (
        was.get(each.column, each.column) for each in changes if each.kind in {ChangeKind.NULLABILITY, *REPLACED}
    )
    if any(name in key for name in leaving):
        yield no_identifier(target, key)  # the others alone identify no row
    yield from statements.evolve(sql.table(target), evolved(changes, schema))


def set_property(target: Target, name: str, value: str) -> str:
    return f"ALTER TABLE {sql.table(target)} SET TBLPROPERTIES ({pairs({name: value})})"


def location(target: Target, warehouse: str | None) -> str | None:
    """Where the files of a table with an unusual name lie; None where the catalog's own choice is safe.

    A name with a slash, a dot, a quote or an emoji would else become part of a path.
    """
    if warehouse is None or all(map(plain, target.parts[1:])):
        return None
    return "/".join([warehouse, *(folder(part) for part in target.parts[1:])])


def _partition(expression: str, schema: Schema) -> str:
    text = expression.strip()
    if schema.find(text):
        return sql.quote(_scalar(text, schema, f"partition_by {text!r}"))
    found = _TRANSFORM.fullmatch(text)
    if found is None:
        return sql.quote(known(text, schema, "partition_by"))
    word, number, column = found["word"], found["number"], found["column"].strip()
    if _understood(word, number):
        name = sql.quote(_transformable(text, _PLAIN_WORDS.get(word, word), column, schema))
        return f"{word}({number}, {name})" if number else f"{_PLAIN_WORDS[word]}({name})"
    raise ConfigError(
        f"partition_by {expression!r} is not understood",
        hint="Use a column, years(c), months(c), days(c), hours(c), bucket(16, c) or truncate(4, c).",
    )


def _sortable(name: str, schema: Schema) -> str:
    return _scalar(known(name, schema, "sort_by"), schema, f"sort_by {name!r}")


def _scalar(name: str, schema: Schema, where: str) -> str:
    """The column's name. Raises ConfigError for an array, by which Iceberg neither partitions nor sorts."""
    column = schema.find(name)
    if column is not None and column.type.kind is Kind.ARRAY:
        raise ConfigError(f"layout: {where} is of type {column.type}; Iceberg needs a single value", column=name)
    return name


def _transformable(text: str, word: str, name: str, schema: Schema) -> str:
    """The column's name. Raises ConfigError if there is none, or its type is not one of the transform's."""
    column = schema.find(known(name, schema, "partition_by"))
    if column is not None and column.type.stored.kind not in TRANSFORMED[word]:
        fitting = ", ".join(sorted(TRANSFORMED[word]))
        raise ConfigError(
            f"layout: partition_by {text!r} transforms a column of type {column.type}; {word} takes {fitting}",
            column=name,
        )
    return name


def _understood(word: str, number: str | None) -> bool:
    return int(number) > 0 and word in _NUMBERED_WORDS if number else word in _PLAIN_WORDS
