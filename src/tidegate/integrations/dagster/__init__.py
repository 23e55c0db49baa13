"""Streams as assets of Dagster: loads, verification, backfills, schedules and incidents.

Needs the extra `dagster`.
"""

from tidegate.integrations.dagster import required as _required  # noqa: F401 - first: says what is missing
from tidegate.integrations.dagster.assets import tidegate_assets
from tidegate.integrations.dagster.automation import build_tidegate_schedules
from tidegate.integrations.dagster.component import TidegateProjectComponent
from tidegate.integrations.dagster.project import StreamProps, TidegateProject
from tidegate.integrations.dagster.resource import TidegateResource
from tidegate.integrations.dagster.sensors import build_arrival_sensor, build_incident_sensor
from tidegate.integrations.dagster.translator import TidegateTranslator

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
