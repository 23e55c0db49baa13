"""The Spark sessions that a project's streams and lakes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.config import Config
from tidegate.core.ports.format import Format
from tidegate.engine.stream import Stream
from tidegate.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sessions(
    config: Config, streams: Sequence[Stream], lakes: Mapping[str, Format], borrowed: SparkSession | None
) -> Sessions:
    """Sessions with the jars and settings of all of them; nothing starts yet.

    Args:
        borrowed: a session to use in their place.
    """
    options = config.spark
    sources = [stream.source for stream in streams]
    confs = [found for source in sources if (found := source.spark_conf())]
    jars = [*(jar for source in sources for jar in source.jars())]
    jars += (jar for lake in lakes.values() for jar in lake.jars())
    return Sessions(
        master=options.master or "local[*]",
        remote=options.remote,
        borrowed=borrowed,
        conf={key: str(value) for key, value in options.conf.items()},
        lakes=[*confs, *(lake.spark_conf() for lake in lakes.values())],
        jars=list(dict.fromkeys(jars)),
        secrets=config.secrets,
    )
