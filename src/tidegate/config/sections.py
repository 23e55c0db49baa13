"""The options of the sections of the project file that belong to no plugin and no policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How a session is made: by a master, or on a Spark Connect server.

    Args:
        master: where Spark runs: `local[*]` (the default), `spark://host:7077`, `yarn` or `k8s://…`.
        remote: a Spark Connect server instead of a master: `sc://host:15002`.
        conf: settings of the Spark session, such as `spark.driver.memory: 4g`.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What `tidegate serve` keeps, and for how long.

    Args:
        idle_stop: time without a load after which Spark is ended; the next load starts it again.
        keep_warm: how long the first run leaves a service behind that keeps Spark warm; not at all by default. Also
            written `keep_warm:` at the top of the project.
    """

    idle_stop: timedelta = timedelta(minutes=30)
    keep_warm: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """What is sent of runs, and by which standard; where to is said by that standard's own variables.

    Args:
        opentelemetry: send traces by OTLP. Unless given: where `OTEL_EXPORTER_OTLP_ENDPOINT` or
            `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set.
        openlineage: send OpenLineage events. Unless given: where `OPENLINEAGE_URL` or `OPENLINEAGE_CONFIG` is set.
    """

    opentelemetry: bool | None = None
    openlineage: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """What is proven of a load before it becomes visible, and how often of the whole table.

    Args:
        level: what is compared of the rows that moved: nothing, their number, or their fingerprint.
        full_every: how old the last proof of the whole table may become; the run after that compares all of it. Never
            unless given.
    """

    level: Literal["none", "counts", "moved"] = "moved"
    full_every: timedelta | None = None

    def __post_init__(self) -> None:
        if self.full_every is not None and self.full_every <= timedelta(0):
            raise ValueError("full_every must be longer than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a load does about each kind of change of the source's columns; `stop` commits nothing.

    Args:
        add_column: the source has a new column: `evolve` adds it to the table, `fill` also loads its values into older
            rows, `rescue` keeps its values in the column `_rescued`, `discard` does not read it, `stop` ends the load.
        widen: a type became wider, such as `int` to `bigint`: `evolve` widens the table's column, `stop` ends the load.
        narrow: a type became narrower: `keep` leaves the table's type, which holds every value; `stop` ends the load.
        type_change: a column has another type: `replace` reads every row again and replaces the table's rows and the
            column's type, `widen` does that for a type that holds every value of the old one, `cast` keeps the table's
            type and ends the load at the first value that does not fit it, `rescue` keeps its values in the column
            `_rescued`, `discard` does not read it, `stop` ends the load.
        nullability: a column that the table requires may now be NULL: `evolve` lets the table's be NULL, too, `keep`
            leaves the table as it is, `stop` ends the load.
        drop_column: a column is gone at the source: `keep` leaves it in the table, with NULL in new rows; `stop` ends
            the load.
        rename: a column has another name: `evolve` renames the table's column, `keep` treats it as one column dropped
            and one added, `stop` ends the load.
    """

    add_column: Literal["evolve", "fill", "rescue", "discard", "stop"] = "evolve"
    widen: Literal["evolve", "stop"] = "evolve"
    narrow: Literal["keep", "stop"] = "stop"
    type_change: Literal["stop", "replace", "widen", "cast", "rescue", "discard"] = "stop"
    nullability: Literal["evolve", "keep", "stop"] = "evolve"
    drop_column: Literal["keep", "stop"] = "keep"
    rename: Literal["stop", "evolve", "keep"] = "stop"
