"""What lakes and files in an object store ask of Spark and of PyIceberg, told by their settings alone."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidegate.core.ids import Target
from tidegate.errors import ConfigError, EnvironmentMissing, WriteError
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.formats.shared.storage import store_of, stored
from tidegate.sources.files import Files
from tidegate.spark import jars

STORE = {"s3.endpoint": "http://127.0.0.1:7070", "s3.path-style-access": "true"}


@pytest.mark.parametrize(
    ("path", "needed"),
    [("s3://b/in/*.csv", jars.S3A), ("s3a://b/in/x.csv", jars.S3A), ("gs://b/in/*.csv", ()), ("/s3/in/*.csv", ())],
)
def test_spark_gets_what_reads_files_in_s3(path, needed):
    assert Files(path=path).jars() == needed


def test_a_lake_in_s3_has_its_jars_and_a_local_one_none_of_them():
    assert set(jars.S3A) <= set(Delta(name="lake", warehouse="s3a://b/lake").jars())
    assert jars.ICEBERG_AWS in Iceberg(name="lake", warehouse="s3://b/lake").jars()
    for lake in (Delta(name="lake"), Iceberg(name="lake")):
        assert not set(jars.S3A) & set(lake.jars())
    assert jars.LOCAL_FILES in Iceberg(name="lake").jars()
    assert jars.LOCAL_FILES not in Iceberg(name="lake", warehouse="s3://b/lake").jars()


def test_the_embedded_catalog_hands_options_of_a_store_on_and_takes_no_others(tmp_path: Path):
    def lake(**options: str) -> Iceberg:
        return Iceberg(name="lake", warehouse="s3://b/w", catalog={"type": "sqlite", **options}, folder=tmp_path)

    made = lake(path="c.db", **STORE)
    conf = made.spark_conf()
    assert {f"spark.sql.catalog.lake.{name}": value for name, value in STORE.items()}.items() <= conf.items()
    assert "spark.sql.catalog.lake.path" not in conf
    assert STORE.items() <= made._where.pyiceberg().items()
    with pytest.raises(ConfigError, match="accepts only `path:` and storage options"):
        lake(uri="x")


@pytest.mark.parametrize("read", [lambda: stored("s3://b/t"), lambda: store_of("s3a://b/t").names("_delta_log")])
def test_a_login_that_a_store_refuses_is_told_as_such(monkeypatch, read):
    def refuse(*_):
        raise OSError("When listing objects: AWS Error SIGNATURE_DOES_NOT_MATCH during ListObjectsV2 operation")

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=refuse))
    with pytest.raises(WriteError, match=r"the store of s3a?://b/t.* denied access") as caught:
        read()
    assert "role" in caught.value.hint


def test_a_catalog_whose_package_is_not_installed_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.hive", None)
    lake = Iceberg(name="lake", catalog={"type": "hive", "uri": "thrift://127.0.0.1:1"}, folder=tmp_path)
    with pytest.raises(EnvironmentMissing, match="of type hive, is not installed") as caught:
        lake._where.table(Target(lake="lake", namespace=("s",), table="t"))
    assert "the extra `hive`: `" in caught.value.hint


@pytest.mark.parametrize("name", [("s", "ta`ble"), ("a", "b", "c"), ("s", "élan"), ("s t", "x")])
def test_a_name_that_hive_does_not_take_is_told_before_anybody_is_asked(tmp_path, name):
    lake = Iceberg(name="lake", catalog={"type": "hive", "uri": "thrift://127.0.0.1:1"}, folder=tmp_path)
    with pytest.raises(ConfigError, match="letters, digits and _"):
        lake.state(Target(lake="lake", namespace=name[:-1], table=name[-1]), "0123456789abcdef")
