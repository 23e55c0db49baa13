"""A change log in a PostgreSQL replication slot."""
