"""Files in a real S3 server, listed and read without Spark: by fsspec for sources, by Arrow for lakes."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
import s3fs

from support.object_store import ACCESS, REGION, SECRET
from tidegate.core.ids import Target
from tidegate.errors import ConfigError, SourceError, SourceRefused, WriteError
from tidegate.formats.delta.log import Log
from tidegate.formats.iceberg import Iceberg
from tidegate.formats.shared.placed import refuse_filled
from tidegate.formats.shared.storage import has_older, store_of, stored, usage
from tidegate.sources.shared.files.store import place

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

FILES = {"in/a.csv": b"one", "in/b c+d%.csv": b"two", "in/deep/=x/c.csv": b"three", "in/_SUCCESS": b""}


@pytest.fixture
def bucket(s3):
    folder = s3.bucket("landing")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    yield folder
    folder.rename(folder.with_name(f"landing-{uuid.uuid4().hex}"))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_source_lists_and_reads_what_is_meant(bucket, scheme):
    def paths(text):
        return [each.path for each in place(f"{scheme}://landing/{text}").seen()[0]]

    assert paths("in/*.csv") == ["a.csv", "b c+d%.csv"]
    assert paths("in") == paths("in/**/*.csv") == ["a.csv", "b c+d%.csv", "deep/=x/c.csv"]
    assert paths("in/a.csv") == ["a.csv"]
    store = place(f"{scheme}://landing/in").store
    assert store.read("b c+d%.csv") == b"two"
    assert store.uri("a.csv") == "s3a://landing/in/a.csv"
    assert store.look("a.csv").size == 3
    assert store.look("gone.csv") is None
    with pytest.raises(SourceRefused, match="no file or folder"):
        paths("nowhere/*.csv")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_lake_lists_and_reads_everything(bucket, scheme):
    location = f"{scheme}://landing/in"
    assert {f"in/{each.path}": each.size for each in stored(location)} == {name: len(FILES[name]) for name in FILES}
    assert usage(location).older_files == len(FILES)
    assert sorted(store_of(location).names("")) == ["_SUCCESS", "a.csv", "b c+d%.csv", "deep"]
    assert store_of(location).read("b c+d%.csv") == b"two"
    assert (stored(f"{location}/nowhere"), Log.open(store_of(f"{location}/nowhere"))) == ([], None)
    with pytest.raises(WriteError, match="is missing"):
        store_of(location).read("gone")


def test_a_lake_finds_its_store_by_its_own_settings(bucket, s3, tmp_path, monkeypatch):
    """Nothing but the login is in the environment; the second lake has that, too, in its settings."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    location, target = "s3a://landing/in", Target(lake="lake", namespace=("shop",), table="orders")
    settings = {"type": "sqlite", "s3.endpoint": s3.endpoint, "client.region": REGION}
    lake = Iceberg(name="lake", warehouse="s3://landing/lake", catalog=settings, folder=tmp_path)
    assert {each.path for each in lake._where.store(location).walk()} == {name.removeprefix("in/") for name in FILES}
    with pytest.raises(ConfigError, match="is not empty"):
        refuse_filled(target, location, lake._where.store)
    refuse_filled(target, "s3://landing/new", lake._where.store)
    assert usage(location, open_store=lake._where.store).older_files == len(FILES)
    assert has_older(location, datetime.now(UTC) + timedelta(days=1), lake._where.store)
    assert not has_older(location, datetime.now(UTC) - timedelta(days=1), lake._where.store)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    login = {"s3.access-key-id": ACCESS, "s3.secret-access-key": SECRET}
    known = Iceberg(name="lake", warehouse="s3://landing/lake", catalog=settings | login, folder=tmp_path)
    assert len(known._where.store(location).walk()) == len(FILES)


def test_a_refused_login_is_told_without_it(bucket, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}x")
    with pytest.raises(WriteError, match="denied access") as lake:
        stored("s3a://landing/in")
    s3fs.S3FileSystem.clear_instance_cache()  # a client keeps the login that it was made with
    with pytest.raises(SourceError, match="cannot be re") as source:
        place("s3://landing/in/**/*.csv").seen()
    s3fs.S3FileSystem.clear_instance_cache()
    for told in (lake.value, source.value):
        assert SECRET not in f"{told}{told.hint}"
