"""Streams as assets of Dagster: loads, verification, backfills, schedules and incidents."""

from tidegate_dagster.assets import tidegate_assets
from tidegate_dagster.automation import build_tidegate_schedules
from tidegate_dagster.component import TidegateProjectComponent
from tidegate_dagster.project import StreamProps, TidegateProject
from tidegate_dagster.resource import TidegateResource
from tidegate_dagster.sensors import build_arrival_sensor, build_incident_sensor
from tidegate_dagster.translator import TidegateTranslator

__all__ = [
    "StreamProps",
    "TidegateProject",
    "TidegateProjectComponent",
    "TidegateResource",
    "TidegateTranslator",
    "build_arrival_sensor",
    "build_incident_sensor",
    "build_tidegate_schedules",
    "tidegate_assets",
]
