"""Creates or upgrades the registry's schema when the registry is opened.

Never touches a schema of a newer version, and imports Alembic only when needed.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, text

from tidegate.errors import RegistryError
from tidegate.registry.database import Database
from tidegate.registry.tables import HEAD, VERSION_TABLE

ADVISORY_LOCK = 7_434_611_901
"""PostgreSQL's advisory lock that lets one process migrate at a time."""


def ensure_schema(database: Database) -> None:
    """The schema is this version's when it returns; of several processes at once, one does the work.

    Raises:
        RegistryError: the registry was written by a newer version, or before the first release; nothing was touched.
    """
    with database.read() as connection:
        if _version(connection) == HEAD:
            return
    with database.write() as connection:
        if not database.is_sqlite:  # SQLite's write transaction is the lock
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        stored = _version(connection)
        if stored != HEAD:
            _upgrade(connection, stored, database.name)


def require_schema(database: Database) -> None:
    """Changes nothing. Raises RegistryError: the registry's schema is not the one of this version."""
    with database.read() as connection:
        stored = _version(connection)
    if stored != HEAD:
        raise RegistryError(
            f"{database.name} has schema {stored or 'none'}, and this version reads {HEAD}",
            hint="Use the version of Tidegate that loads with it; the next `tidegate run` upgrades an older schema.",
        )


def _version(connection: Connection) -> str | None:
    lookup = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name = :name"
        if connection.dialect.name == "sqlite"
        else "SELECT to_regclass(:name)::text"
    )
    if connection.execute(text(lookup), {"name": VERSION_TABLE}).scalar() is None:
        return None
    stored = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if stored is None else str(stored)


def _upgrade(connection: Connection, stored: str | None, name: str) -> None:
    from alembic import command  # noqa: PLC0415 - slow, and needed once in the life of a registry
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if stored is not None and stored < min(known):
        raise RegistryError(
            f"{name} was made by a version of Tidegate that was never released (schema {stored})",
            hint="Move it away and run again: positions are in the tables, and the next run takes them from there.",
        )
    if stored is not None and stored not in known:
        raise RegistryError(
            f"{name} was written by a newer Tidegate (schema {stored}, this version knows up to {HEAD})",
            hint="Upgrade Tidegate: install it again from where it came from, at that version or a newer one.",
        )
    command.upgrade(config, "head")
