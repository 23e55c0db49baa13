"""Facets made of Tidegate's own values: columns, where each comes from, and the part of a source that was read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from openlineage.client.generated import base_subset_dataset as subsets
from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

from tidegate.core.plan import LoadPlan
from tidegate.core.schema import Kind, Schema
from tidegate.core.slices import Everything, Files, LogRange, Partition, Range, Slice
from tidegate.telemetry.datasets import Name

Maker = Callable[..., Any]


def make(kind: Callable[..., Any], *, producer: str, **values: Any) -> Any:
    """A facet, with the name of who made it."""
    return kind(producer=producer, **values)


def schema(facet: Maker, columns: Schema, *, native: bool = False, known: Collection[str] | None = None) -> Any:
    """The columns in order.

    Args:
        native: with the source's own words for types.
        known: the columns of the source; others are said to be added.
    """
    fields = [
        SchemaDatasetFacetFields(
            name=column.name,
            type=column.native if native and column.native is not None else column.type.spark,
            description="added by Tidegate" if known is not None and column.name not in known else None,
            ordinal_position=place,
        )
        for place, column in enumerate(columns, start=1)
    ]
    return facet(SchemaDatasetFacet, fields=fields)


def column_lineage(facet: Maker, plan: LoadPlan, source: Name, made: Collection[str]) -> Any:
    """Each column of the table that is a column of the source; what is kept as another type is no identity."""
    fields = {}
    for column in plan.columns:
        if column.name in made or column.type.kind is Kind.RESCUED or plan.table.find(column.name) is None:
            continue
        same = column.type.stored == column.type
        change = Transformation(type="DIRECT", subtype="IDENTITY" if same else "TRANSFORMATION", masking=False)
        comes = InputField(namespace=source.namespace, name=source.name, field=column.name, transformations=[change])
        fields[column.name] = Fields(inputFields=[comes])
    return facet(ColumnLineageDatasetFacet, fields=fields)


def subset(facet: Maker, parts: Sequence[Slice]) -> Any | None:
    """The part of the source that these slices are; None for all of it, and for what no condition can say."""
    if not parts or any(isinstance(part, Everything) for part in parts):
        return None
    if all(isinstance(part, Files) for part in parts):
        paths = [path for part in parts if isinstance(part, Files) for path in part.paths]
        return facet(subsets.InputSubsetInputDatasetFacet, inputCondition=_locations(paths))
    if all(isinstance(part, LogRange) for part in parts):
        ranges = [_log_range(part) for part in parts if isinstance(part, LogRange)]
        condition = subsets.PartitionSubsetCondition(partitions=ranges)
        return facet(subsets.InputSubsetInputDatasetFacet, inputCondition=condition)
    found = [_condition(part) for part in parts]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    return facet(subsets.InputSubsetInputDatasetFacet, inputCondition=_joined(known, "OR"))


def _locations(paths: Sequence[str]) -> subsets.LocationSubsetCondition:
    return subsets.LocationSubsetCondition(locations=list(paths))


def _log_range(part: LogRange) -> subsets.Partition:
    return subsets.Partition(identifier=part.part, dimensions={"after": part.after or "", "upto": part.upto})


def _condition(part: Slice) -> Any | None:
    """A range or a partition as comparisons of its column; None where NULLs belong to it, which none can say."""
    if isinstance(part, Range) and len(part.cursor) == 1 and not part.nulls and part.upto is not None:
        return _between(part.cursor[0], ("GREATER_THAN", part.after), ("LESS_EQUAL_THAN", part.upto))
    if isinstance(part, Partition) and not part.nulls and part.low is not None:
        return _between(part.column, ("GREATER_EQUAL_THAN", part.low), ("LESS_THAN", part.high))
    return None


def _between(column: str, *bounds: tuple[str, str | None]) -> Any:
    found = [
        subsets.CompareSubsetCondition(
            left=subsets.FieldBaseCompareExpression(field=column),
            right=subsets.LiteralCompareExpression(value=value),
            comparison=comparison,
        )
        for comparison, value in bounds
        if value is not None
    ]
    return _joined(found, "AND")


def _joined(conditions: Sequence[Any], operator: str) -> Any:
    """All of them, as a tree that is as flat as two branches allow."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    left, right = _joined(conditions[:half], operator), _joined(conditions[half:], operator)
    return subsets.BinarySubsetCondition(left=left, right=right, operator=operator)
