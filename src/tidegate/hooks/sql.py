"""The hook `sql`: one statement at a connection of the project, such as the refresh of a materialized view."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate import extras, plugins
from tidegate.core.cutting import cut
from tidegate.core.ids import Connection
from tidegate.core.ports.hook import PublishedLoad
from tidegate.errors import ConfigError, EnvironmentMissing

SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sql:
    """A statement is executed at a connection of the project; its rows are not looked at.

    Args:
        sql: one statement, such as `REFRESH MATERIALIZED VIEW marts.daily`.
        connection: a connection of the project to a database that can run statements: PostgreSQL, Snowflake, Trino, ….
    """

    kind: ClassVar[str] = "sql"
    main: ClassVar[str] = "sql"

    sql: str
    connection: Connection

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise ConfigError("`sql:` is empty")

    @property
    def label(self) -> str:
        """The connection and the beginning of the statement."""
        return f"sql at {self.connection.name}: {cut(' '.join(self.sql.split()), SHOWN)}"

    def refuse(self) -> None:
        """Raises ConfigError: no such dialect, a wrong URL, or no statements there. EnvironmentMissing: no driver."""
        dialect = self._dialect()
        dialect.refuse_url(self.connection)
        package = dialect.executes
        if importlib.util.find_spec(package) is None:
            raise EnvironmentMissing(f"the package {package} is not installed", hint=extras.hint(package))

    def run(self, load: PublishedLoad, *, seconds: float, ended: Callable[[], bool]) -> None:  # noqa: ARG002 - the server ends it
        """Executes the statement in a connection of its own; the server ends it after so many seconds."""
        session = self._dialect().open(self.connection)
        try:
            session.execute(self.sql, seconds=seconds)
        finally:
            session.close()

    def _dialect(self) -> Any:
        dialect = plugins.dialect_of(self.connection.scheme)()
        if not getattr(dialect, "executes", ""):
            kinds = {kind: plugins.load("dialects", kind) for kind in plugins.names("dialects")}
            able = [kind for kind, each in kinds.items() if getattr(each, "executes", "")]
            raise ConfigError(
                f"connection {self.connection.name!r}: hooks run no statements at {self.connection.scheme}; they do at "
                f"{', '.join(able)}",
                hint="Name another connection in `after_publish:`, or use the kind `webhook`.",
            )
        return dialect
