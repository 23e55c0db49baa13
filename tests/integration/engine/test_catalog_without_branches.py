"""A REST catalog that says that it is Nessie's, which keeps no branches of tables: the first look refuses it."""

import json

import pytest

from support.catalog_proxy import Answer, error, in_front_of
from support.shops import STREAMS, sqlite_shop
from support.workspace import Workspace

# What Nessie 0.99 answers, without the options of a store.
CONFIG = {
    "defaults": {"prefix": "main"},
    "overrides": {"nessie.is-nessie-catalog": "true", "nessie.default-branch.name": "main"},
}


def nessie(request, ask):
    if request.path.startswith("/v1/config"):
        return Answer(status=200, body=json.dumps(CONFIG).encode())
    return error(404, "NoSuchTableException")


@pytest.fixture
def catalog():
    with in_front_of("http://127.0.0.1:1") as proxy:
        proxy.fault = nessie
        yield proxy


@pytest.fixture
def project(tmp_path, catalog):
    workspace = Workspace(folder=tmp_path)
    shop = sqlite_shop(tmp_path)
    lakes = {"lake": {"format": "iceberg", "catalog": {"type": "rest", "uri": catalog.url}}}
    workspace.write({"orders": STREAMS["orders"]}, connections={"shop": {"url": shop.url}}, lakes=lakes)
    with workspace.project() as project:
        yield project


def test_nothing_is_made_in_it(project, catalog):
    (ran,), (planned,) = project.run().streams, project.plan().streams
    for told in (ran.error, planned.error):
        assert told.code == "incompatible"
        assert "a Nessie server, ignores branches of tables" in told.message
        assert "another catalog" in told.hint
    assert not ran.spark_started
    assert ran.rows_read is None or ran.rows_read == 0
    assert {request.method for request in catalog.asked} == {"GET"}


def test_doctor_names_it(project):
    found = {each.name: each for each in project.doctor()}
    assert found["lake lake"].ok
    assert not found["loads into lake"].ok
    assert "a Nessie server, ignores branches of tables" in found["loads into lake"].detail
