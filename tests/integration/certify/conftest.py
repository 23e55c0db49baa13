"""A server of Snowflake's protocol, for those that ask for it."""

from support.snowflake import snowflake_server  # noqa: F401 - the fixture
