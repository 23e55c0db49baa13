"""How Debezium captures MariaDB and MySQL: the connection without its password, and the modes that lose nothing."""

from __future__ import annotations

from tidegate.core.connector import CapturedDatabase
from tidegate.dialects.mariadb.address import Address

CLASSES = {
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
}
"""By the scheme of the URL."""
SSL = {"disable": "disable", "require": "required", "verify-ca": "verify_ca", "verify-full": "verify_identity"}
"""Debezium's words, but for MariaDB's connector, which has the driver's."""
EXACT = {
    "bigint.unsigned.handling.mode": "precise",
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # Else the year 17 becomes 2017.
    "enable.time.adjuster": "false",
    "time.precision.mode": "adaptive_time_microseconds",
}


def captured(scheme: str, address: Address) -> CapturedDatabase:
    """Of a URL's scheme and parts."""
    words = {"disable": "disable", "require": "trust"} if scheme == "mariadb" else {}
    mode = address.options.get("sslmode")
    ssl = {"database.ssl.mode": {**SSL, **words}[mode] if scheme == "mysql" or mode in words else mode} if mode else {}
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        **ssl,
        "database.include.list": address.database,
        **EXACT,
    }
    return CapturedDatabase(
        connector=CLASSES[scheme],
        settings=settings,
        order=("source.file", "source.pos", "source.row", "source.db"),
        namespace=address.database,
        keeps_history=True,
        is_replica=True,
    )
