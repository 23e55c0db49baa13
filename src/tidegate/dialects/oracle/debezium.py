"""How Debezium captures Oracle: the connection without its password, and the modes that lose nothing."""

from __future__ import annotations

from tidegate.core.connector import CapturedDatabase
from tidegate.dialects.oracle.address import Address

EXACT = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # As a number, a month is thirty days and a bit.
    "interval.handling.mode": "string",
    # Else changes of a CLOB or BLOB are not captured, and the table keeps the first ones.
    "lob.enabled": "true",
    # As nanoseconds, which fill 64 bits, the year 9999 would become another one.
    "time.precision.mode": "microseconds",
}


def captured(address: Address) -> CapturedDatabase:
    """Of a URL's parts; of a pluggable database, where the URL names its container."""
    container = address.options.get("cdb")
    names = {"database.dbname": container or address.service}
    if container is not None:
        names["database.pdb.name"] = address.service
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        **names,
        **EXACT,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.oracle.OracleConnector",
        settings=settings,
        order=(
            "source.commit_scn",
            "source.lcr_position",
            "source.scn",
            "source.rs_id",
            "source.ssn",
            "source.schema",
            "source.db",
        ),
        namespace=address.user.upper(),
        keeps_history=True,
    )
