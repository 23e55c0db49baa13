"""How a file is put into S3 only if it is absent: where the store is, and what its answers mean."""

import errno
from types import SimpleNamespace

import pytest
import s3fs

from tidegate.errors import WriteError
from tidegate.loaders._objects import Objects

SAID = {
    "spark.hadoop.fs.s3a.endpoint": "store.example:9000",
    "spark.hadoop.fs.s3a.endpoint.region": "eu-north-1",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.access.key": "AKIAALL",
    "spark.hadoop.fs.s3a.secret.key": "canary/secret",
}


def of(path="s3a://shop/orders", **said):
    conf = SimpleNamespace(get=lambda name, default=None: said.get(name, default))
    return Objects(spark=SimpleNamespace(conf=conf), path=path)


def refusal(kind, status, *words):
    """An error as s3fs makes it of the store's answer."""
    error = kind(*words)
    error.__cause__ = Exception()
    error.__cause__.response = {"ResponseMetadata": {"HTTPStatusCode": status}}
    return error


def test_where_the_store_is_comes_from_the_session_and_first_from_what_it_says_of_the_bucket():
    assert of()._settings() == {}, "nothing is said: the client finds all by itself"
    found = of(**SAID)._settings()
    assert found == {
        "endpoint_url": "https://store.example:9000",
        "key": "AKIAALL",
        "secret": "canary/secret",
        "client_kwargs": {"region_name": "eu-north-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }
    own = {"spark.hadoop.fs.s3a.bucket.shop.access.key": "AKIASHOP", "fs.s3a.endpoint": "http://127.0.0.1:7070"}
    found = of(**SAID, **own)._settings()
    assert (found["key"], found["endpoint_url"]) == ("AKIASHOP", "http://127.0.0.1:7070")
    assert of("s3://other/orders", **SAID, **own)._settings()["key"] == "AKIAALL"


@pytest.mark.parametrize(
    "taken",
    [FileExistsError("x"), refusal(OSError, 412, errno.EINVAL, "x"), refusal(OSError, 409, errno.EBUSY, "x")],
    ids=["told", "412", "409"],
)
def test_a_file_that_is_there_is_not_put(monkeypatch, taken):
    def refuse(*_, **__):
        raise taken

    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", refuse)
    assert of(**SAID).put("s3a://shop/orders/1", "x") is False


@pytest.mark.parametrize("kind", [PermissionError, FileNotFoundError, type("NoCredentialsError", (Exception,), {})])
def test_a_login_that_is_refused_ends_the_load_and_is_not_told(monkeypatch, kind):
    def refuse(*_, **__):
        raise refusal(kind, 403, "canary/secret")

    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", refuse)
    with pytest.raises(WriteError, match="the store of s3a://shop/orders denied access") as caught:
        of(**SAID).put("s3a://shop/orders/1", "x")
    assert "canary" not in f"{caught.value} {caught.value.hint}"


def test_an_answer_that_says_nothing_leaves_open_whether_the_file_was_put(monkeypatch):
    def broken(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", broken)
    with pytest.raises(TimeoutError):
        of().put("s3a://shop/orders/1", "x")


def test_a_store_is_asked_for_a_file_that_is_there(monkeypatch):
    files = {}

    def put(_, path, data, mode):
        assert mode == "create", "without it the store writes over what is there"
        if path in files:
            raise FileExistsError(path)
        files[path] = data

    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", put)
    of().need("s3a://shop/orders/_tidegate/asked")
    of().need("s3a://shop/orders/_tidegate/asked")
    assert files == {"shop/orders/_tidegate/asked": b""}
    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", lambda *_, **__: None)
    with pytest.raises(WriteError, match="overwrites an existing file") as caught:
        of().need("s3a://shop/orders/_tidegate/asked")
    assert "Iceberg" in caught.value.hint
