"""Loads every stream of a project once an hour, one task each, and then compares the tables with their sources.

The second DAG runs whenever a load has changed the table `lake.shop.orders`, and not when nothing was new.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task

from tidegate_airflow.assets import stream_names, tidegate_asset
from tidegate_airflow.operators import TidegateRunOperator, TidegateVerifyOperator

log = logging.getLogger(__name__)
PROJECT = os.environ["TIDEGATE_PROJECT"]

with DAG("shop", schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1):
    load = TidegateRunOperator.partial(
        task_id="load",
        project_dir=PROJECT,
        retries=3,
        retry_delay=timedelta(minutes=1),
        max_active_tis_per_dag=2,
        map_index_template="{{ task.streams }}",
    ).expand(streams=stream_names(PROJECT))
    verify = TidegateVerifyOperator(task_id="verify", project_dir=PROJECT)
    load >> verify

with DAG("orders_report", schedule=[tidegate_asset("lake.shop.orders")], catchup=False):

    @task
    def report(triggering_asset_events: Any = None) -> None:
        """What stands here reads the table only when there is something new in it."""
        for events in triggering_asset_events.values():
            for event in events:
                log.info("%s rows of orders are new", event.extra["tidegate/rows_inserted"])

    report()
