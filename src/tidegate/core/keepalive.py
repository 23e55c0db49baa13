"""How soon a server that vanished without closing its connections is noticed: after two minutes, not two hours.

A host that loses power, or a firewall that forgets a connection, says nothing. Only probes of TCP tell it from a
server that is busy with a long statement, so there is no timeout for answers.
"""

from __future__ import annotations

from collections.abc import Mapping

IDLE, INTERVAL, COUNT = 60, 10, 6
"""Seconds of silence before the first probe, seconds between probes, and how many may stay unanswered."""

LIBPQ: Mapping[str, str] = {
    "keepalives_idle": str(IDLE),
    "keepalives_interval": str(INTERVAL),
    "keepalives_count": str(COUNT),
    # What is sent and not acknowledged suspends the probes; in milliseconds. By the system's own limit: 15 minutes.
    "tcp_user_timeout": str(1000 * (IDLE + INTERVAL * COUNT)),
}
"""For every connection by libpq, unless its URL says otherwise."""
