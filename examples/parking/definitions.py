"""The platform in Dagster: streams of Tidegate are assets with checks and schedules, and marts of dbt follow them.

A mart is built after a run that changed one of its sources, and not otherwise: Tidegate reports a materialization only
if a load changed the table, and an observation if there was nothing to load.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from tidegate_dagster import (
    TidegateResource,
    build_incident_sensor,
    build_tidegate_schedules,
    tidegate_assets,
)

FOLDER = Path(__file__).parent
DBT = [os.environ.get("DBT", "dbt"), "--no-use-colors"]
PLACE = ["--project-dir", str(FOLDER / "dbt"), "--profiles-dir", str(FOLDER / "dbt")]


@tidegate_assets(project=FOLDER)
def parking(context: dg.AssetExecutionContext, tidegate: TidegateResource) -> Any:
    """The streams of the project."""
    yield from tidegate.run(context)


def mart(name: str, *, reads: Sequence[str]) -> dg.AssetsDefinition:
    """A model of dbt as an asset that follows the tables and models that it reads."""

    @dg.asset(
        name=name,
        deps=reads,
        group_name="marts",
        kinds={"dbt", "trino"},
        automation_condition=dg.AutomationCondition.eager(),
    )
    def build(context: dg.AssetExecutionContext) -> None:
        done = subprocess.run([*DBT, "build", "--select", name, *PLACE], capture_output=True, text=True, check=False)
        context.log.info(done.stdout)
        if done.returncode:
            raise dg.Failure(
                f"dbt could not build {name}", metadata={"dbt": dg.MetadataValue.text(done.stdout[-2000:])}
            )

    return build


defs = dg.Definitions(
    assets=[
        parking,
        mart("availability", reads=["garages"]),
        mart("occupancy_by_hour", reads=["readings"]),
        mart("forecast_by_weekday", reads=["occupancy_by_hour"]),
    ],
    # A run that fails is not repeated: the next one is a minute away.
    resources={"tidegate": TidegateResource(project_dir=str(FOLDER), retries=0)},
    schedules=[each for each in build_tidegate_schedules(FOLDER) if isinstance(each, dg.ScheduleDefinition)],
    sensors=[
        dg.AutomationConditionSensorDefinition(
            "marts_follow",
            target=dg.AssetSelection.groups("marts"),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=10,
        ),
        build_incident_sensor(FOLDER),
    ],
    executor=dg.in_process_executor,
)
