"""What Airflow's OpenLineage provider learns of a task; nothing where that provider is not installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.telemetry.datasets import of_path

if TYPE_CHECKING:
    from airflow.sdk import Context


def parent_of(context: Context) -> Mapping[str, str]:
    """Variables that make a task the parent of the runs in Tidegate's own events."""
    try:
        from airflow.providers.openlineage.plugins.macros import (  # noqa: PLC0415 - few have it
            lineage_parent_id,
            lineage_root_parent_id,
        )
    except ImportError:
        return {}
    task = context["ti"]
    return {
        "OPENLINEAGE_PARENT_ID": lineage_parent_id(task),
        "OPENLINEAGE_ROOT_PARENT_ID": lineage_root_parent_id(task),
    }


def lineage_of(locations: Iterable[str | None]) -> Any:
    """The tables as outputs, by the places of their files."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - as above
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 - as above

    places = [of_path(location) for location in locations if location]
    return OperatorLineage(outputs=[Dataset(namespace=each.namespace, name=each.name) for each in places])
