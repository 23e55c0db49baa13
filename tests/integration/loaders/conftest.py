"""One session for all loaders of a process."""

import pytest

from support.lake import QUICK
from support.loading import Bench


@pytest.fixture(scope="session")
def delta_session(spark):
    """A session of a caller far from UTC, whose settings are its own."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in QUICK.items():
        session.conf.set(name, value)
    return session


@pytest.fixture
def bench(delta_session, tmp_path):
    return Bench(delta_session, tmp_path)
