"""Tests in which nobody may ask for a Spark session, whoever else has one in this process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def without_spark() -> Iterator[None]:
    """Takes away what every session needs, also one that is borrowed: asking for one raises ImportError."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyspark.errors", None)
        yield


@pytest.fixture
def no_spark() -> Iterator[None]:
    with without_spark():
        yield
