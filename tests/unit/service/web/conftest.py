from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from support.dashboard import project, seeded
from tidegate.service.web.app import create_app
from tidegate.service.web.settings import WebSettings

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A service whose registry no test changes."""
    service = seeded(project(tmp_path_factory.mktemp("project"), 14))
    yield service
    service.close()


@pytest.fixture
def service(tmp_path):
    """A service of the test's own."""
    made = seeded(project(tmp_path, 7), runs_each=3)
    yield made
    made.close()


def client_of(service, **settings):
    app = create_app(service, WebSettings(**{"token": TOKEN, **settings}), metrics=lambda: b"tidegate_up 1\n")
    return TestClient(app, base_url="http://127.0.0.1:8471", follow_redirects=False)


@pytest.fixture
def anybody(shared):
    """A browser that has no token."""
    return client_of(shared)


@pytest.fixture
def browser(shared):
    """A browser that has logged in, on a registry that nobody changes."""
    return logged_in(client_of(shared))


@pytest.fixture
def acting(service):
    """A browser that has logged in, on a registry of its own."""
    return logged_in(client_of(service))


def logged_in(client):
    answer = client.get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    return client
