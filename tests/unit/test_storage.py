"""The one layer through which files are listed and read: on disk, by fsspec and by Arrow alike."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from pyarrow import fs

from tidegate.errors import SourceRefused, SourceUnavailable
from tidegate.sources.shared.files.store import folder_of
from tidegate.storage import ArrowFiles, Fsspec, Store, by_fsspec, local_path, of_lake, on_disk


class Told(Exception):
    """What the tests' stores raise."""


def problem(where: str, error: Exception) -> Exception:
    return Told(where, type(error))


def stores(folder: Path) -> list[Store]:
    disk = on_disk(str(folder), problem)
    return [
        disk,
        by_fsspec(f"file://{folder}", str(folder), problem),
        replace(disk, files=ArrowFiles(fs.LocalFileSystem())),
    ]


@pytest.fixture
def folder(tmp_path):
    for name in ("a.csv", "_log/b.json", "x/y/c d%.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("client", [0, 1, 2], ids=["disk", "fsspec", "arrow"])
def test_every_client_says_the_same(folder, client):
    store = stores(folder)[client]
    found = {each.path: each for each in store.walk()}
    assert {path: each.size for path, each in found.items()} == {"a.csv": 5, "_log/b.json": 11, "x/y/c d%.csv": 12}
    assert found["a.csv"].written == pytest.approx((folder / "a.csv").stat().st_mtime, abs=1e-3)
    assert sorted(store.names("")) == ["_log", "a.csv", "x"]
    assert store.names("x") == ("y",)
    assert not store.names("nowhere")
    assert store.read("x/y/c d%.csv") == b"x/y/c d%.csv"
    with store.open("a.csv") as content:
        assert content.read() == b"a.csv"
    with pytest.raises(Told) as caught:
        store.read("absent.csv")
    assert caught.value.args == (f"{store.where}/absent.csv", FileNotFoundError)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    store = on_disk(f"{tmp_path}/gone", problem)
    assert (store.walk(), store.names(""), store.look("a"), store.there()) == ([], None, None, False)


def test_a_depth_and_folders_that_are_skipped(folder):
    store = on_disk(str(folder), problem)
    assert [each.path for each in store.walk(0)] == ["a.csv"]
    assert sorted(each.path for each in store.walk(1)) == ["_log/b.json", "a.csv"]
    assert sorted(each.path for each in store.walk(skip=lambda name: name == "x")) == ["_log/b.json", "a.csv"]


def test_what_others_remove_meanwhile_is_an_error_unless_they_may(folder, monkeypatch):
    listed = os.scandir

    class Late:
        """A listing whose folder `x` is removed by somebody before it is entered."""

        def __init__(self, path):
            self.entries = sorted(listed(path), key=lambda entry: entry.name)

        def __enter__(self):
            for path in (folder / "x/y/c d%.csv", folder / "x/y", folder / "x"):
                path.unlink(missing_ok=True) if path.is_file() else path.rmdir() if path.is_dir() else None
            return self.entries

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", Late)
    kept = (folder / "x/y/c d%.csv").read_text()
    assert sorted(each.path for each in on_disk(str(folder), problem).walk(at_work=True)) == ["_log/b.json", "a.csv"]
    (folder / "x/y").mkdir(parents=True)
    (folder / "x/y/c d%.csv").write_text(kept)
    with pytest.raises(Told) as caught:
        on_disk(str(folder), problem).walk()
    assert caught.value.args == (f"{folder}/x", FileNotFoundError)


def test_a_link_that_leads_up_is_followed_once(folder):
    (folder / "x" / "up").symlink_to(folder)
    found = [each.path for each in on_disk(str(folder), problem).walk()]
    assert len(found) == len(set(found)) == 3


def test_files_of_a_source_are_told_by_what_can_be_done(folder):
    with pytest.raises(SourceRefused, match=rf"{folder}/absent\.csv cannot be read: No such file"):
        folder_of(str(folder)).open("absent.csv")
    memory = by_fsspec("memory://b/in", "b/in", folder_of("/").problem)
    with pytest.raises(SourceRefused, match=r"memory://b/in/absent\.csv cannot be read"):
        memory.open("absent.csv")
    broken = replace(memory, files=Fsspec(Broken()))
    with pytest.raises(SourceUnavailable, match="memory://b/in cannot be reached"):
        broken.walk()


class Broken(fsspec.AbstractFileSystem):
    """Of two folders one cannot be listed."""

    def ls(self, path, **_):
        if path.endswith("bad"):
            raise ConnectionError("secret")
        return [{"name": f"{path}/{name}", "type": "directory", "size": 0} for name in ("bad", "good")]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_folder_that_cannot_be_listed_is_never_an_empty_one(depth):
    """What is not listed would seem to be deleted."""
    store = replace(by_fsspec("memory://b/in", "b/in", problem), files=Fsspec(Broken()))
    assert store.walk(0) == []
    with pytest.raises(Told) as caught:
        store.walk(depth)
    assert caught.value.args == ("memory://b/in", ConnectionError)


def test_the_places_of_lakes():
    assert local_path("file:/a/b%20c") == local_path("file:///a/b%20c") == Path("/a/b%20c")
    assert local_path("s3://bucket/a") is None
    assert of_lake("file:///a", problem).read.__self__.base == "/a"


def test_what_is_on_disk_needs_no_client_of_a_store(folder):
    code = (
        "import sys; from tidegate.formats.shared.storage import stored; from tidegate.sources.shared.files.store "
        f"import place; stored('file://{folder}'); place('{folder}/*.csv').seen(); "
        "print({'fsspec', 'pyarrow', 's3fs'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "set()"
