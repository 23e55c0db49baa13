"""Streams as assets of Airflow, for the schedules of other DAGs and for tasks that are mapped over streams."""

from __future__ import annotations

from airflow.sdk import Asset

from tidegate import Project


def tidegate_asset(table: str) -> Asset:
    """The asset of a table, by its name in the project: `lake.shop.orders`.

    A `TidegateRunOperator` adds an event to it for each load that changed the table, and none for runs that found
    nothing new.
    """
    return Asset(name=table, uri=f"tidegate://{table.replace('.', '/')}")


def stream_names(project_dir: str, *, profile: str | None = None, select: str = "", exclude: str = "") -> list[str]:
    """The streams of a project, as `--select` and `--exclude` choose them; asks a source only for patterns.

    Raises:
        ConfigError: the project is not valid, or no stream is chosen.
    """
    with Project.load(project_dir, profile=profile) as project:
        return [each.name for each in project.streams(select=select or None, exclude=exclude or None)]
