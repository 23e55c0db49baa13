"""A server of PostgreSQL that vanishes without closing is noticed by TCP: what is set on the connections themselves."""

import os
import socket
import stat
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tidegate.core.ids import Connection
from tidegate.dialects.postgresql.dialect import Postgresql
from tidegate.registry.store import Registry

pytestmark = pytest.mark.postgres

OPTIONS = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
OURS = (60, 10, 6, 120_000)
STATED = "?keepalives_idle=7&keepalives_interval=8&keepalives_count=9&tcp_user_timeout=10000"


@pytest.mark.parametrize(("stated", "expected"), [("", OURS), (STATED, (7, 8, 9, 10_000))])
def test_connections_probe_their_server(pg_url, stated, expected):
    port = urlsplit(pg_url).port
    with closing(Postgresql().open(Connection(name="shop", url=pg_url + stated))):
        assert set(probes(port)) == {expected}
    with Registry.open(pg_url + stated):
        assert set(probes(port)) == {expected}


@pytest.mark.parametrize(("stated", "expected"), [("", "true"), ("?keepalives=0", "false")])
def test_sparks_driver_does_too(pg_url, stated, expected):
    dialect = Postgresql()
    with closing(dialect.open(Connection(name="shop", url=pg_url + stated))) as session:
        session.hold(dialect.relation("pg_catalog", "pg_class"))
        assert session.jdbc().properties["tcpKeepAlive"] == expected


def probes(port):
    """The options of every connection that this process has to that port."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not stat.S_ISSOCK(each.stat().st_mode):
                continue
            with socket.socket(fileno=os.dup(int(each.name))) as found:
                if found.family == socket.AF_INET and found.getpeername()[1] == port:
                    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                    yield tuple(found.getsockopt(socket.IPPROTO_TCP, option) for option in OPTIONS)
