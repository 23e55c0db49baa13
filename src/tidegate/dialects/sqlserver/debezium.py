"""How Debezium captures SQL Server: the connection without its password, and the modes that lose nothing."""

from __future__ import annotations

from tidegate.core.connector import CapturedDatabase
from tidegate.dialects.sqlserver.address import Address

EXACT = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # As nanoseconds, which fill 64 bits, the year 9999 of a `datetime2` would become another one.
    "time.precision.mode": "microseconds",
    # Else rows that change while the first ones are read may come twice, or in another order than they changed.
    "snapshot.isolation.mode": "snapshot",
}


def captured(address: Address) -> CapturedDatabase:
    """Of a URL's parts."""
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        "database.names": address.database,
        "driver.encrypt": "false" if address.mode == "disable" else "true",
        "driver.trustServerCertificate": str(address.mode == "require").lower(),
        **EXACT,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.sqlserver.SqlServerConnector",
        settings=settings,
        order=("source.commit_lsn", "source.change_lsn", "source.event_serial_no", "source.schema", "source.db"),
        namespace="dbo",
        within=(address.database,),
        keeps_history=True,
    )
