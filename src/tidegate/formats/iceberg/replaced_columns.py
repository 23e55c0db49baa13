"""Gives columns of an Iceberg table another type, together with all of its rows and before any reader sees it.

No statement changes a type to one that is not wider. So the new values are written to new columns on the load's branch;
then one commit of the catalog takes the old columns away, gives their names to the new ones, and makes the branch
visible. A reader sees the table either as it was or as it is then.

Source: Iceberg specification, "Schema Evolution"; a column is its field id, and its name may be given to another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan
from tidegate.core.schema import Schema
from tidegate.errors import SchemaRefused
from tidegate.formats.iceberg.metadata import REPLACING, Metadata
from tidegate.spark import sql
from tidegate.spark.remote import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def irreplaceable(metadata: Metadata, columns: Sequence[str]) -> str | None:
    """Why these columns cannot be replaced; None where they can."""
    names = {field["id"]: field["name"] for field in metadata.fields()}
    wanted = {number for number, name in names.items() if name in columns}
    kinds = {"partition-specs": "partitioned", "sort-orders": "sorted"}
    for kind, word in kinds.items():
        fields = (field for each in metadata.raw.get(kind) or () for field in each["fields"])
        used = sorted({names[field["source-id"]] for field in fields if field.get("source-id") in wanted})
        if used:
            return f"the table is or was {word} by {', '.join(used)}"
    if "schema.name-mapping.default" in metadata.properties:
        return "files of the table that another tool wrote know columns by their names alone"
    return None


def refuse_connect(session: SparkSession, columns: Sequence[str]) -> None:
    """Refuses what needs Iceberg's own API. Raises SchemaRefused."""
    if columns and is_connect(session):
        raise SchemaRefused(
            f"the type of {', '.join(columns)} cannot be replaced over Spark Connect, which has no statement for it",
            hint="Run it once with `spark: {master: …}` in place of `remote:`, or use another target.",
            column=columns[0],
        )


def prepare(target: Target, schema: Schema, columns: Sequence[str], metadata: Metadata | None) -> Iterator[str]:
    """The statements that add the new columns, and drop those that a crash left behind.

    The old columns may be NULL from then on: rows of the load's branch have nothing in them.
    """
    if metadata is not None:
        yield from drop_left(target, metadata)
        for field in metadata.fields():
            if field["name"] in columns and field.get("required"):
                yield f"ALTER TABLE {sql.table(target)} ALTER COLUMN {sql.quote(field['name'])} DROP NOT NULL"
    types = {column.name: column.type.stored.spark for column in schema}
    added = ", ".join(f"{sql.quote(REPLACING + name)} {types[name]}" for name in columns)
    yield f"ALTER TABLE {sql.table(target)} ADD COLUMNS ({added})"


def drop_left(target: Target, metadata: Metadata) -> Iterator[str]:
    """The statements that drop new columns which have not taken the place of others."""
    for field in metadata.fields():
        if field["name"].startswith(REPLACING):
            yield f"ALTER TABLE {sql.table(target)} DROP COLUMN {sql.quote(field['name'])}"


def as_written(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with the values of these columns in the new ones."""
    return rows.withColumnsRenamed({name: REPLACING + name for name in columns}) if columns else rows


def as_published(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows of the branch as the table will show them."""
    if not columns:
        return rows
    return rows.drop(*columns).withColumnsRenamed({REPLACING + name: name for name in columns})


def ids_as_published(metadata: Metadata, columns: Sequence[str]) -> Mapping[str, str]:
    """The number of every column by the name that it will have."""
    return {
        **metadata.ids,
        **{name: metadata.ids[REPLACING + name] for name in columns if REPLACING + name in metadata.ids},
    }


def publish(session: SparkSession, table: str, plan: LoadPlan, marks: Mapping[str, str]) -> None:
    """One commit: the new columns take the names of the old ones, and main moves to the branch.

    An empty snapshot follows that carries the position: each snapshot keeps the schema that it was written with, and
    time travel to this one has to show the new names.

    Args:
        marks: the properties of a snapshot that carries the position.
    """
    spark: Any = session
    java, its_session = spark._jvm, spark._jsparkSession  # noqa: SLF001 - Iceberg's own API has no other door
    loaded = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(its_session, table)
    transaction = loaded.newTransaction()
    columns = transaction.updateSchema()
    for name in plan.replaced:
        columns = columns.deleteColumn(name).renameColumn(REPLACING + name, name)
    columns.commit()
    transaction.manageSnapshots().fastForwardBranch("main", plan.branch).commit()
    carrier = transaction.newAppend()
    for name, text in marks.items():
        carrier = carrier.set(name, text)
    carrier.commit()
    transaction.commitTransaction()


def refuse_older(metadata: Metadata, version: str, target: Target) -> None:
    """Refuses to go back to a version in which a name belongs to another column, whose values nobody would see.

    Raises:
        SchemaRefused: names the columns; the version can be read by time travel.
    """
    snapshots: Sequence[Mapping[str, Any]] = metadata.raw.get("snapshots") or ()
    found = next((each for each in snapshots if str(each["snapshot-id"]) == version), {})
    then = {field["name"]: field["id"] for field in metadata.fields_of(found.get("schema-id", 0))}
    now = {field["name"]: field["id"] for field in metadata.fields()}
    other = sorted(name for name, number in now.items() if then.get(name, number) != number)
    if other:
        raise SchemaRefused(
            f"version {version} of {target} is from before the type of {', '.join(other)} was replaced, and the table "
            f"would show NULL in it",
            hint=f"Read it where it is: `SELECT * FROM {target} VERSION AS OF {version}`.",
            column=other[0],
        )
