"""What a lake needs of a Spark that was started elsewhere: a session that lacks it is refused.

Spark itself says nothing until it is too late, or nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentMissing
from tidegate.spark import sql
from tidegate.spark.jars import BUNDLED, DELTA_LOG_STORE, NEEDED
from tidegate.spark.logs import refusals_unlogged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
LOG_STORE = "spark.delta.logStore.s3a.impl"
STARTED_WITH = frozenset({EXTENSIONS, LOG_STORE})
"""Settings of a lake that count only if Spark was started with them."""

Lakes = Sequence[Mapping[str, str]]


def extensions_of(lakes: Lakes) -> tuple[str, ...]:
    """The SQL extensions of these lakes, each once."""
    return tuple(dict.fromkeys(lake[EXTENSIONS] for lake in lakes if EXTENSIONS in lake))


def need_settings(session: SparkSession, lakes: Lakes) -> None:
    """Makes sure that Spark was started with what counts only then.

    Raises:
        EnvironmentMissing: it lacks the extensions of a lake, or commits to Delta tables in S3 without protection.
    """
    loaded, wanted = session.conf.get(EXTENSIONS, "") or "", extensions_of(lakes)
    if any(extension not in loaded for extension in wanted):
        raise EnvironmentMissing(
            "the Spark session was started without the SQL extensions that a lake needs",
            hint=f"Start it with `{EXTENSIONS}={','.join(wanted)}`.",
        )
    log_store = next((lake[LOG_STORE] for lake in lakes if LOG_STORE in lake), None)
    if log_store is not None and not session.conf.get(LOG_STORE, None):
        raise EnvironmentMissing(
            "the Spark session commits to Delta tables in S3 in Delta's default way, which loses a commit without a "
            "word if another Spark commits at the same time",
            hint=f"Start it with the jar {BUNDLED[DELTA_LOG_STORE]} and `{LOG_STORE}={log_store}`, or with another "
            "log store in that setting, such as Delta's own for DynamoDB.",
        )


def need_jars(session: SparkSession, lakes: Lakes) -> None:
    """Makes sure that the classes of the lakes are there; Spark names one when it is asked for, in many words.

    Raises:
        EnvironmentMissing: one is not.
    """
    values = [value for lake in lakes for value in lake.values()]
    missing = [
        (name, brought)
        for begins, (name, brought) in NEEDED.items()
        if any(value.startswith(begins) for value in values) and not _has_class(session, name)
    ]
    if not missing:
        return
    settings = [f"spark.jars.packages={','.join(each for _, brought in missing for each in brought)}"]
    if extensions := extensions_of(lakes):
        settings.append(f"{EXTENSIONS}={','.join(extensions)}")
    raise EnvironmentMissing(
        f"the Spark session lacks the class {missing[0][0]}, which a lake needs",
        hint=f"Start that Spark with {' and '.join(f'`{each}`' for each in settings)}, or with those jars on its "
        "class path.",
    )


def _has_class(session: SparkSession, name: str) -> bool:
    """Whether the session's class path has the class; yes where the session does not tell."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - importing pyspark takes a second

    try:
        # Never run: a class that is there has no such method, which is another refusal.
        with refusals_unlogged():
            return bool(session.sql(f"SELECT java_method({sql.string(name)}, 'none')").schema)
    except PySparkException as error:
        return error.getCondition() != "DATATYPE_MISMATCH.UNEXPECTED_CLASS_TYPE"
