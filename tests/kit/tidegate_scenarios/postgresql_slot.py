"""How `tidegate certify` has PostgreSQL keep a log of its table: a replication slot, which the first load makes.

The server keeps every change for a slot until it is dropped, so what an earlier certification left goes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from psycopg import sql

from tidegate.errors import ConfigError, TidegateError
from tidegate_scenarios.certification import Scratch, TableLog

# On Amazon's servers no user has the attribute, but membership of a role.
ABOUT = """
SELECT r.rolsuper OR r.rolreplication OR EXISTS (
    SELECT 1 FROM pg_roles AS g WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'MEMBER')),
  has_database_privilege(current_database(), 'CREATE'), current_database(), current_user
FROM pg_roles AS r WHERE r.rolname = current_user
"""
DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {slot}"


class ReplicationSlot(TableLog):
    """Of a login that may use one, and publish its table."""

    name: ClassVar[str] = "cdc"
    outside: ClassVar[str] = "makes a replication slot and a publication, if the login may"

    def source(self, instance: str) -> Mapping[str, Any]:
        """A slot and a publication of that name."""
        return {"slot": instance}

    def start(self, scratch: Scratch, table: str, instance: str) -> None:
        """Raises ConfigError: this login may not make a slot, or not publish a table."""
        self.stop(scratch, table, instance)
        ((replicates, creates, database, user),) = scratch.execute(ABOUT)
        if not replicates:
            raise ConfigError(
                "this login may not use replication slots",
                hint=f"To certify it, let an administrator run `ALTER ROLE {_quoted(user)} REPLICATION`.",
            )
        if not creates:
            raise ConfigError(
                "this login may not publish a table",
                hint="To certify it, let an administrator run "
                f"`GRANT CREATE ON DATABASE {_quoted(database)} TO {_quoted(user)}`.",
            )

    def pending(self, scratch: Scratch, instance: str) -> str:
        """The first load waits for what is open."""
        del scratch, instance
        return ""

    def stop(self, scratch: Scratch, table: str, instance: str) -> tuple[str, ...]:
        """The slot and the publication, whoever made them under this name."""
        del table
        try:
            scratch.execute(DROP.format(slot=sql.Literal(instance).as_string()))
            scratch.execute(f"DROP PUBLICATION IF EXISTS {_quoted(instance)}")
        except TidegateError:
            return (f"replication slot {instance}",)
        return ()


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
