"""Alembic's environment: runs migrations in the transaction of the process that opens the registry.

Never opens a connection or transaction itself.
"""

from alembic import context

from tidegate.registry.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
