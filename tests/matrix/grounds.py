"""Where the histories of a flavour are played: new folders, and new databases where a server is needed."""

import itertools

import pytest

from matrix import simulated_tables
from matrix.groups import DRIVERS, Ground, new_url
from matrix.sqlserver_logs import sqlserver_logs  # noqa: F401 - the fixture
from support.lake import with_driver


@pytest.fixture
def grounds(request, spark, tmp_path):
    numbers = itertools.count()

    def new(server):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        if server is None:
            return Ground(folder=folder, spark=spark)
        if server in DRIVERS:
            with_driver(spark, *DRIVERS[server])
        found = request.getfixturevalue(server)
        return Ground(folder=folder, spark=spark, url=new_url(server, found), server=found)

    return new


@pytest.fixture
def simulated(tmp_path_factory, monkeypatch):
    """Dialects of servers that are simulated; nothing but the program's path changes."""
    folder = tmp_path_factory.mktemp("dialects")
    simulated_tables.install(folder)
    monkeypatch.syspath_prepend(folder)
