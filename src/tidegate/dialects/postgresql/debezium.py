"""How Debezium captures PostgreSQL: the connection without its password, and the modes that lose nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.connector import CapturedDatabase

EXACT = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    "hstore.handling.mode": "json",
    # As a number, a month is thirty days and a bit.
    "interval.handling.mode": "string",
    "time.precision.mode": "adaptive_time_microseconds",
    # Columns of unknown types would be missing, and the table's NULL.
    "include.unknown.datatypes": "true",
}


def captured(options: Mapping[str, str]) -> CapturedDatabase:
    """Of the parts of a connection's URL, as libpq names them."""
    settings = {
        "database.hostname": options.get("host", "localhost"),
        "database.port": options.get("port", "5432"),
        "database.user": options.get("user", ""),
        "database.dbname": options.get("dbname", ""),
        **({"database.sslmode": options["sslmode"]} if "sslmode" in options else {}),
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        # Else the events of a partitioned table name its partitions.
        "publish.via.partition.root": "true",
        **EXACT,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.postgresql.PostgresConnector",
        settings=settings,
        order=("source.sequence", "source.schema", "source.db"),
        namespace="public",
        reads_slot=True,
    )
