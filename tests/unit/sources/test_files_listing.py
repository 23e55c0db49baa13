"""Which files are seen, which are ready, and by what their content is known: on a real folder, without Spark."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import fsspec
import pytest

from tidegate.core.slices import Everything
from tidegate.errors import SourceError, SourceMoved, SourceRefused
from tidegate.sources.files.listing import listed, verify_unchanged
from tidegate.sources.files.source import Files
from tidegate.sources.shared.files.store import Place, place
from tidegate.storage import Store

NOW = timedelta(0)
LONG_AGO = time.time() - 3600


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)


def put(path: Path, text: str = "x", *, aged: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if aged:
        os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def seen(folder: Path, path: str = "**/*.csv") -> list[str]:
    return list(listed(place(f"{folder}/{path}"), NOW, None).ready.files)


def later() -> float:
    """The clock of a run a minute from now, when no stamp is fresh any more."""
    return time.time() + 60


class Watched:
    """A store of which is told what is opened, before it is."""

    def __init__(self, store: Store, tell: Callable[[str], object]) -> None:
        self.store, self.tell = store, tell

    def __getattr__(self, name: str):
        return getattr(self.store, name)

    def open(self, path: str):
        self.tell(path)
        return self.store.open(path)


def watched(where: Place, tell: Callable[[str], object]) -> Place:
    return replace(where, store=Watched(where.store, tell))


def hashes(where: Place, known=None):
    """A listing and how often a content was hashed for it."""
    counted = []
    found = listed(watched(where, counted.append), NOW, known, now=later)
    return found.ready, counted


def test_patterns_and_folders(tmp_path):
    for name in ("a.csv", "b.txt", "x/c.csv", "x/y/d.csv", "x/y=1/e.csv", "[odd].csv"):
        put(tmp_path / name)
    assert seen(tmp_path, "*.csv") == ["[odd].csv", "a.csv"]
    assert seen(tmp_path, "**/*.csv") == ["[odd].csv", "a.csv", "x/c.csv", "x/y/d.csv", "x/y=1/e.csv"]
    assert seen(tmp_path, "x/*/?.csv") == ["y/d.csv", "y=1/e.csv"]
    assert seen(tmp_path, "x") == ["c.csv", "y/d.csv", "y=1/e.csv"]
    assert seen(tmp_path, "x/c.csv") == ["c.csv"]
    assert seen(tmp_path, "nothing*.csv") == []


def test_what_writers_hide_is_not_seen(tmp_path):
    for name in ("_SUCCESS", ".a.csv.crc", "_temporary/0/b.csv", ".hidden/c.csv", "_year=2025/d.csv", "e_f.csv"):
        put(tmp_path / name)
    assert seen(tmp_path, "") == ["_year=2025/d.csv", "e_f.csv"]


def test_links_are_followed_once(tmp_path):
    put(tmp_path / "real" / "a.csv")
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert seen(tmp_path) == ["linked/a.csv", "real/a.csv"]


@pytest.mark.parametrize("kind", ["file", "folder", "link to a link", "by steps up"])
def test_a_link_out_of_the_folder_is_refused(tmp_path, kind):
    secret = put(tmp_path / "private" / "a.csv", "of the program's user")
    landing = tmp_path / "landing"
    put(landing / "x" / "b.csv")
    link = landing / ("c" if kind == "folder" else "c.csv")
    if kind == "folder":
        link.symlink_to(secret.parent)
    elif kind == "link to a link":
        (tmp_path / "between").symlink_to(secret)
        link.symlink_to(tmp_path / "between")
    else:
        link.symlink_to(secret if kind == "file" else "x/../../private/a.csv")
    for path in ("**/*.csv", "", *(["c.csv"] if kind != "folder" else [])):
        with pytest.raises(SourceRefused, match=f"{link} is a link that leads out of") as caught:
            seen(landing, path)
        assert "follow_links: true" in caught.value.hint
    assert seen(landing, "x/*.csv") == ["b.csv"]
    found = listed(place(f"{landing}/**/*.csv", follow_links=True), NOW, None).ready.files
    assert list(found) == ["c/a.csv" if kind == "folder" else "c.csv", "x/b.csv"]


def test_links_that_are_not_meant_refuse_nothing(tmp_path):
    put(tmp_path / "private" / "a.txt")
    put(tmp_path / "landing" / "b.csv")
    for name in ("c.txt", "_hidden.csv", "gone.txt"):
        (tmp_path / "landing" / name).symlink_to(tmp_path / "private" / ("a.txt" if name != "gone.txt" else "gone"))
    assert seen(tmp_path / "landing", "*.csv") == ["b.csv"]


def test_a_folder_that_is_a_link_itself_is_the_project_s_own_choice(tmp_path):
    put(tmp_path / "real" / "a.csv")
    (tmp_path / "landing").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "b.csv").symlink_to("a.csv")
    assert seen(tmp_path / "landing") == ["a.csv", "b.csv"]


def test_what_is_not_there_is_an_error_and_an_empty_folder_is_not(tmp_path):
    for path in ("gone/*.csv", "gone.csv", "gone"):
        with pytest.raises(SourceRefused, match="no file or folder"):
            seen(tmp_path, path)
    assert seen(tmp_path) == []


def test_a_character_of_a_pattern_in_brackets_stands_for_itself(tmp_path):
    for name in ("a[1]?", "a1x"):
        put(tmp_path / name / "x*.csv")
        put(tmp_path / name / "xy.csv")
    assert seen(tmp_path, "a[[]1][?]/*.csv") == ["x*.csv", "xy.csv"]
    assert seen(tmp_path, "a[[]1][?]/x[*].csv") == ["x*.csv"]
    assert seen(tmp_path, "a[[]1][?]") == ["x*.csv", "xy.csv"]
    assert seen(tmp_path, "a[1]?/*.csv") == ["a1x/x*.csv", "a1x/xy.csv"]


def test_a_name_that_is_no_text_is_refused(tmp_path):
    with open(os.fsencode(tmp_path) + b"/\xff.csv", "w"):  # noqa: PTH123 - a name that no Path can hold
        pass
    with pytest.raises(SourceError, match="UTF-8"):
        seen(tmp_path)


def test_unfinished_and_young_files_wait(tmp_path):
    put(tmp_path / "a.csv")
    put(tmp_path / "b.csv.part")
    put(tmp_path / "notes.txt.part")
    put(tmp_path / "c.csv", aged=False)
    where = place(f"{tmp_path}/*.csv")
    assert listed(where, NOW, None).waiting == ("b.csv.part",)
    # Whatever time of modification a file was given, it came into the folder just now.
    found = listed(where, timedelta(minutes=5), None)
    assert (list(found.ready.files), found.waiting) == ([], ("a.csv", "b.csv.part", "c.csv"))
    assert list(listed(where, timedelta(seconds=30), None, now=later).ready.files) == ["a.csv", "c.csv"]


ASKED = {
    "version": lambda probe: probe.version(),
    "fingerprint": lambda probe: probe.fingerprint(Everything()),
    "count": lambda probe: probe.count(Everything()),
    "rows": lambda probe: probe.frame.rows(None),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_table_of_all_files_is_not_read_while_one_of_them_waits(tmp_path, asked):
    """Its rows would count as deleted."""
    put(tmp_path / "a.csv", "id\n1\n")
    put(tmp_path / "b.csv", "id\n2\n")
    put(tmp_path / "c.csv.part", "id\n3\n")
    source = Files(path=f"{tmp_path}/*.csv", columns={"id": "bigint"}, settle=timedelta(minutes=5))
    with source.probe() as probe:
        assert probe.schema().names == ("id",), "columns can be asked for"
        with pytest.raises(SourceMoved) as caught:
            ASKED[asked](probe)
    assert caught.value.message.startswith("b.csv and 1 other file may still be being written")
    until = re.search(r"Run again at (\S+ \S+) UTC, when `settle:` has passed", caught.value.hint)
    assert until is not None
    assert 290 < datetime.fromisoformat(f"{until[1]}+00:00").timestamp() - time.time() <= 300
    with Files(path=f"{tmp_path}/*.csv", columns={"id": "bigint"}).probe() as probe:
        assert probe.count(Everything()) == 2, "a file without its final name does not belong to the table yet"
        assert probe.version()


def test_a_table_of_all_files_is_not_read_while_one_of_them_is_written(tmp_path, monkeypatch):
    put(tmp_path / "a.csv", "id\n1\n")
    growing = put(tmp_path / "b.csv", "id\n2\n", aged=False)
    monkeypatch.setattr(time, "sleep", lambda _seconds: growing.write_text("id\n2\n3\n"))
    with Files(path=f"{tmp_path}/*.csv", columns={"id": "bigint"}).probe() as probe:
        with pytest.raises(SourceMoved, match=r"b\.csv may still be being written, and without it") as caught:
            probe.version()
        assert "Run again later: that run loads every file." in caught.value.hint


def test_chosen_files_are_read_while_another_one_waits(tmp_path):
    put(tmp_path / "a.csv", "id\n1\n")
    with Files(path=f"{tmp_path}/*.csv", columns={"id": "bigint"}, settle=timedelta(minutes=5)).probe() as probe:
        probe.choose([], {})
        assert (probe.count(Everything()), bool(probe.version())) == (0, True)


def test_a_file_that_grows_while_it_is_looked_at_waits(tmp_path):
    put(tmp_path / "still.csv")
    growing = put(tmp_path / "growing.csv", aged=False)
    where = place(f"{tmp_path}/*.csv")

    def meanwhile(path):
        if path == growing.name:
            growing.write_text("xx")

    found = listed(watched(where, meanwhile), NOW, None, now=later)
    assert found.waiting == ("growing.csv",), "too old to be looked at twice"


def test_a_file_that_grows_between_two_looks_waits(tmp_path, monkeypatch):
    growing = put(tmp_path / "growing.csv", aged=False)
    monkeypatch.setattr(time, "sleep", lambda _seconds: growing.write_text("xx"))
    assert listed(place(f"{tmp_path}/*.csv"), NOW, None).waiting == ("growing.csv",)


def test_a_content_is_hashed_once_and_again_when_it_may_have_changed(tmp_path):
    file = put(tmp_path / "a.csv", "one")
    where = place(f"{tmp_path}/*.csv")
    first, counted = hashes(where, None)
    assert counted == ["a.csv"]
    second, counted = hashes(where, first)
    assert (second, counted) == (first, [])
    os.utime(file)  # another time, the same content
    third, counted = hashes(where, second)
    assert counted == ["a.csv"]
    assert third.digest == second.digest
    assert third != second


def test_another_content_of_the_same_size_and_time_is_seen(tmp_path):
    file = put(tmp_path / "a.csv", "one")
    where = place(f"{tmp_path}/*.csv")
    known, _ = hashes(where, None)
    put(file, "two")  # sets the time of modification back, too
    found, counted = hashes(where, known)
    assert counted == ["a.csv"]
    assert found.digest != known.digest


def test_a_stamp_within_the_clocks_step_vouches_for_nothing(tmp_path):
    put(tmp_path / "a.csv", aged=False)
    where = place(f"{tmp_path}/*.csv")
    assert listed(where, NOW, None).ready.files["a.csv"].stamp is None
    assert listed(where, NOW, None, now=later).ready.files["a.csv"].stamp


@pytest.mark.parametrize("what", ["grown", "exchanged", "gone"])
def test_files_that_move_under_the_reader_are_told(tmp_path, what):
    file = put(tmp_path / "a.csv", "one")
    where = place(f"{tmp_path}/*.csv")
    files = listed(where, NOW, None).ready.files.values()
    verify_unchanged(where, files)
    if what == "gone":
        file.unlink()
    else:
        put(file, "one more" if what == "grown" else "two")
    with pytest.raises(SourceMoved, match=r"a\.csv"):
        verify_unchanged(where, files)


def test_a_store_without_etags_is_hashed_and_one_with_them_is_not(monkeypatch):
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/in/a.csv", b"one")
    memory.pipe("/bucket/in/deep/b.csv", b"two")
    where = place("memory://bucket/in/**/*.csv")
    found, counted = hashes(where, None)
    assert sorted(counted) == list(found.files) == ["a.csv", "deep/b.csv"]
    assert {file.stamp for file in found.files.values()} == {None}
    assert list(listed(place("memory://bucket/in/*.csv"), NOW, None).ready.files) == ["a.csv"]
    info = type(memory).info
    monkeypatch.setattr(type(memory), "info", lambda self, path, **more: {**info(self, path, **more), "ETag": '"7f-2"'})
    ls = type(memory).ls
    monkeypatch.setattr(
        type(memory),
        "ls",
        lambda self, path, **more: [{**about, "ETag": '"7f-2"'} for about in ls(self, path, **more)],
    )
    tagged = listed(where, NOW, None).ready
    assert tagged.files["a.csv"].tag == "etag:7f-2"
    verify_unchanged(where, tagged.files.values())
    monkeypatch.undo()
    memory.rm("/bucket", recursive=True)


def test_spark_is_told_where_files_are():
    assert place("/data/*.csv").store.uri("a b.csv") == "file:///data/a b.csv"
    memory = place("memory://bucket/in/*.csv").store
    assert memory.uri("a.csv").startswith("memory://")
    with pytest.raises(SourceRefused, match="no file or folder memory://nowhere"):
        listed(place("memory://nowhere/*.csv"), NOW, None)
