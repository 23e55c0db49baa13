"""Passes rows to a Spark session with the settings that a write needs.

Never changes a setting of the caller's session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidegate.core.ids import new_load_id
from tidegate.spark.remote import is_connect
from tidegate.spark.session import EXACT_FILES, isolated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What literals and settings mean must not depend on the caller's session.
_SURE = {"spark.sql.variable.substitute": "false", **EXACT_FILES}


@contextlib.contextmanager
def handed_over(rows: DataFrame, conf: Mapping[str, str] | None = None) -> Iterator[DataFrame]:
    """The rows in a session like their own with these settings, whose files hold every value as it is."""
    caller: SparkSession = rows.sparkSession
    view = f"tidegate_{new_load_id()}"
    rows.createOrReplaceGlobalTempView(view)
    try:
        with like(caller, conf or {}) as session:
            yield session.table(f"global_temp.{quote(view)}")
    finally:
        caller.catalog.dropGlobalTempView(view)


@contextlib.contextmanager
def like(caller: SparkSession, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A separate session with the caller's settings and these."""
    session = isolated(caller)
    try:
        if not is_connect(caller):
            _copy(caller, session)
        for name, value in {**_SURE, **conf}.items():
            session.conf.set(name, value)
        yield session
    finally:
        if is_connect(session):
            session.stop()


def _copy(caller: SparkSession, session: SparkSession) -> None:
    """A new session of a JVM starts without what was set at run time: catalogs, credentials, time zone."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - importing pyspark takes a second

    there = session.conf.getAll
    for name, value in caller.conf.getAll.items():
        if there.get(name) != value:
            with contextlib.suppress(PySparkException):  # settings of the whole Spark are the same already
                session.conf.set(name, value)
