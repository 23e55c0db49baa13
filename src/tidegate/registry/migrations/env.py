"""Decides how Alembic runs here: inside the transaction of the process that opens the registry.

Loaded by Alembic alone. Must never open a connection or a transaction of its own.
"""

from alembic import context

from tidegate.registry.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
