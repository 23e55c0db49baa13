"""Files in a real S3 server, listed and read without Spark: by fsspec for sources, by Arrow for lakes."""

import uuid

import pytest
import s3fs

from support.object_store import SECRET
from tidegate.errors import SourceError, SourceRefused, WriteError
from tidegate.formats.delta.log import Log
from tidegate.formats.shared.storage import store_of, stored, usage
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
