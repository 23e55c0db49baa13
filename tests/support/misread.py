"""Rows that change between a database and the load: what Spark's reader returns is not what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def misread(monkeypatch: pytest.MonkeyPatch, change: Callable[[DataFrame], DataFrame]) -> None:
    """Every reading over JDBC is changed on its way; columns come in the order of the table, under other names."""
    from pyspark.sql import DataFrameReader

    jdbc = DataFrameReader.jdbc
    monkeypatch.setattr(DataFrameReader, "jdbc", lambda *given, **named: change(jdbc(*given, **named)))
