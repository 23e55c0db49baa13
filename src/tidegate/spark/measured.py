"""A query of the project over a table, whose time maintenance measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.ids import new_load_id
from tidegate.core.policies.maintenance import PLACE
from tidegate.errors import ConfigError
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def measured_query(session: SparkSession, rows: DataFrame, query: str) -> DataFrame:
    """The answer of a query over these rows, which it names `{table}`.

    Raises:
        ConfigError: Spark does not take the query.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - rows are handled, Spark is running

    view = f"tidegate_measured_{new_load_id()}"
    rows.createOrReplaceTempView(view)
    try:
        return session.sql(query.replace(PLACE, quote(view)))
    except AnalysisException as error:
        raise ConfigError(
            f"maintenance: measure_query is no query that Spark takes ({error.getCondition()})",
            hint="Write one SELECT over {table}, or `true`.",
        ) from error
    finally:
        session.catalog.dropTempView(view)
