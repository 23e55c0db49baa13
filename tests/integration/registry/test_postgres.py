"""The behaviour of every registry, and runners against each other, on PostgreSQL."""

import psycopg
import pytest

from support.postgres import free_port
from tidegate.errors import RegistryError, RegistryUnavailable
from tidegate.registry.store import Registry
from unit.registry.behaviour import *  # noqa: F403 - the suite is the module
from unit.registry.behaviour_parts import *  # noqa: F403
from unit.registry.behaviour_reader import *  # noqa: F403
from unit.registry.behaviour_runs import *  # noqa: F403
from unit.registry.behaviour_schema import *  # noqa: F403
from unit.registry.contention import *  # noqa: F403
from unit.registry.test_intervals import *  # noqa: F403

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def url(pg_url):
    return pg_url


def refusal(url):
    with pytest.raises(RegistryError) as caught:
        Registry.open(url)
    error = caught.value
    shown = f"{error} {error.hint} {error.context} {error.to_dict()}"
    assert "s3cr3t" not in shown
    assert "\n" not in str(error)
    return error


def test_whom_the_server_refuses(postgres, url):
    """A wrong password, an unknown database, a user without privileges; and where nobody listens."""
    rules = postgres.data / "pg_hba.conf"
    rules.write_text("host all locked_user 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    with postgres.connect() as admin:
        for statement in ("CREATE ROLE locked_user LOGIN PASSWORD 'right'", "CREATE ROLE plain_user LOGIN"):
            admin.execute(statement)
        admin.execute("SELECT pg_reload_conf()")
    try:
        error = refusal(postgres.url(user="locked_user", password="s3cr3t"))
        assert ("rejected user or password" in str(error), error.retryable) == (True, False)
        error = refusal(postgres.url("nowhere"))
        assert ("does not exist" in str(error), "createdb" in error.hint, error.retryable) == (True, True, False)
        assert "privilege" in str(refusal(url.replace("postgres@", "plain_user@")))
    finally:
        with postgres.connect() as admin:
            admin.execute("DROP ROLE locked_user")
            admin.execute("DROP ROLE plain_user")
    error = refusal(f"postgresql://app:s3cr3t@127.0.0.1:{free_port()}/registry")
    assert (isinstance(error, RegistryUnavailable), error.retryable) == (True, True)


def test_a_session_that_the_server_ended_is_replaced(url):
    with Registry.open(url) as registry:
        registry.register(uid="a", name="a", source="s", target="t")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate registry'"
            )
        assert [s.stream for s in registry.status()] == ["a"]
