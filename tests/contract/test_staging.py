"""What every lake owes a load, on each way to Spark and each kind of catalog: the same suite, real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lake import Lake, make_delta_lake, make_lake
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.errors import ConfigError
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.spark.session import Sessions
from tidegate.testing import FormatBench, FormatContract
from tidegate.testing.contracts.lake import UID, put

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def embedded(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark = request.getfixturevalue("spark")
    return make_lake(folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def delta(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark = request.getfixturevalue("spark")
    return make_delta_lake(folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def delta_connect(request: pytest.FixtureRequest, folder: Path) -> Lake:
    found: Lake = request.getfixturevalue("connect_delta_lake")
    return found


def connect(request: pytest.FixtureRequest, folder: Path) -> Lake:
    found: Lake = request.getfixturevalue("connect_lake")
    return found


def postgresql(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark, server = request.getfixturevalue("spark"), request.getfixturevalue("postgres")
    catalog = {"type": "postgresql", "uri": server.create_database()}
    return make_lake(
        folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(), catalog=catalog
    )


def rest(request: pytest.FixtureRequest, folder: Path) -> Lake:
    return served(request, folder, {"uri": request.getfixturevalue("rest_catalog")})


def oauth2(request: pytest.FixtureRequest, folder: Path) -> Lake:
    return served(request, folder, request.getfixturevalue("oauth2_catalog"))


def served(request: pytest.FixtureRequest, folder: Path, options: dict[str, str]) -> Lake:
    spark = request.getfixturevalue("spark")
    lake = make_lake(
        folder,
        lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(),
        catalog={"type": "rest", **options},
        warehouse=None,
    )
    # One catalog serves all tests, so each has a namespace of its own.
    lake.namespace = (f"n{abs(hash(str(folder)))}",)
    return lake


def hive(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark, url = request.getfixturevalue("spark"), request.getfixturevalue("hive_metastore")
    lake = make_lake(
        folder,
        lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(),
        catalog={"type": "hive", "uri": url},
    )
    lake.namespace = (f"n{abs(hash(str(folder)))}",)
    return lake


REAL = [
    pytest.param(embedded, id="embedded"),
    pytest.param(delta, id="delta"),
    pytest.param(connect, id="connect", marks=pytest.mark.servers),
    pytest.param(delta_connect, id="delta-connect", marks=pytest.mark.servers),
    pytest.param(postgresql, id="postgresql", marks=pytest.mark.postgres),
    pytest.param(rest, id="rest", marks=pytest.mark.servers),
    pytest.param(oauth2, id="rest-oauth2", marks=pytest.mark.servers),
    pytest.param(hive, id="hive", marks=pytest.mark.servers),
]


class TestFormats(FormatContract):
    @pytest.fixture(params=REAL)
    def lake(self, request: pytest.FixtureRequest, tmp_path: Path) -> FormatBench:
        made: FormatBench = request.param(request, tmp_path)
        return made


@pytest.fixture(params=REAL)
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(request, tmp_path)
    return made


NASTY = 'ta`ble "select" it\'s. ../🐘'


@pytest.mark.slow
def test_names_of_any_kind(any_lake: Lake) -> None:
    columns = (Column(name="order", type=BIGINT), Column(name="a.b `c` 'd'", type=TEXT), Column(name="🐘", type=TEXT))
    schema = Schema(columns=columns)
    target = any_lake.target(NASTY)
    layout = Layout(partition_by=("bucket(2, order)",), sort_by=("🐘",))
    if isinstance(any_lake.format, Iceberg) and any_lake.format._where.kind == "hive":
        with pytest.raises(ConfigError, match="of letters, digits and _"):
            any_lake.format.state(target, UID)
        target = any_lake.target()
    if isinstance(any_lake.format, Delta):  # which has neither
        layout = Layout(partition_by=("🐘",))
    any_lake.format.create(any_lake.session, target, schema, layout)
    for mode in (Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE):
        plan = any_lake.plan(target, mode, columns=schema, key=("order",))
        staging = any_lake.format.stage(any_lake.session, target, plan)
        rows = any_lake.rows((1, "x", "y"), (2, "it's", None), schema=schema)
        put(staging, rows, mode)
        keys = rows.selectExpr("`order`")
        assert staging.read_keys(keys, prune=()).count() == 2 if mode is not Mode.APPEND else True
        staging.publish()
    assert any_lake.oracle(target) == [
        {"order": 1, "a.b `c` 'd'": "x", "🐘": "y"},
        {"order": 2, "a.b `c` 'd'": "it's", "🐘": None},
    ]
