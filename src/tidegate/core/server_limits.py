"""What a database server says when it refuses work for now: what that means, and what helps; for every driver alike."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import SourceError, SourceUnavailable


@dataclass(frozen=True, slots=True)
class ServerLimit:
    """Recognized by the server's own words, in which there is no value of a row.

    Args:
        passes: whether the same work may succeed a moment later.
    """

    words: re.Pattern[str]
    reason: str
    hint: str
    passes: bool = True

    def error(self, message: str) -> SourceError:
        """The error with that message."""
        return (SourceUnavailable if self.passes else SourceError)(message, hint=self.hint)


LIMITS = (
    ServerLimit(
        re.compile(r"canceling statement due to lock timeout"),
        "another session has locked a table of the source, or waits for its lock",
        "Run again when its TRUNCATE or ALTER TABLE has ended; in PostgreSQL, `pg_stat_activity` shows it.",
    ),
    ServerLimit(
        re.compile(r"[Tt]oo many connections|too many clients|remaining connection slots|'max_user_connections'"),
        "the source takes no more connections, of this login or at all",
        "Raise the limit, such as `ALTER ROLE … CONNECTION LIMIT 20` (PostgreSQL) or `ALTER USER … WITH "
        "MAX_USER_CONNECTIONS 20` (MariaDB). A load needs one connection, up to four more while a large table is "
        "compared, and one for each part that Spark reads at a time: fewer with `spark: {master: local[2]}`.",
    ),
    ServerLimit(
        re.compile(r"due to conflict with recovery"),
        "the standby cancelled a statement, because its primary has removed or locked what the statement reads",
        "Let the standby wait for what is being read: `ALTER SYSTEM SET max_standby_streaming_delay = '1h'` there, "
        "then `SELECT pg_reload_conf()`; or let its primary keep the rows, `ALTER SYSTEM SET hot_standby_feedback = "
        "on`. Or read from the primary.",
    ),
    ServerLimit(
        re.compile(r"out of shared memory"),
        "the source has no room for the locks: each connection locks every partition that it reads, and every index "
        "of it",
        "Let an administrator run `ALTER SYSTEM SET max_locks_per_transaction = 1024`, then restart the server. There "
        "must be room, in `max_locks_per_transaction` times `max_connections`, for partitions and indexes together "
        "times the connections of a load.",
        passes=False,
    ),
)


def limit_of(text: str) -> ServerLimit | None:
    """What the server refuses for now, by what it or its driver says; None for anything else."""
    return next((limit for limit in LIMITS if limit.words.search(text)), None)
