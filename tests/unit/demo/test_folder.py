"""The demo starts its own folder over, and leaves every other one alone."""

from __future__ import annotations

import pytest

from tidegate import config
from tidegate.errors import ConfigError
from tidegate_demo.folder import MARKER, Folder


def test_a_new_folder_becomes_a_project_that_loads(tmp_path):
    folder = Folder(path=tmp_path / "a" / "demo")
    assert folder.prepare() is False
    streams = config.load(folder.path).streams
    assert [stream.name for stream in streams] == ["flights", "weather", "airlines", "airports", "planes"]


def test_a_second_start_removes_what_the_demo_made_and_nothing_else(tmp_path):
    folder = Folder(path=tmp_path)
    folder.prepare()
    folder.database.write_text("old")
    (tmp_path / "warehouse" / "air").mkdir(parents=True)
    (tmp_path / ".tidegate").mkdir()
    mine = tmp_path / "notes.txt"
    mine.write_text("mine")
    folder.project_file.write_text("{broken")
    assert folder.prepare() is True
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "notes.txt", "tidegate.yaml"]
    assert mine.read_text() == "mine"
    assert "{broken" not in folder.project_file.read_text()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "tidegate.yaml").write_text("mine")
    (tmp_path / "warehouse").mkdir()
    with pytest.raises(ConfigError, match="not empty"):
        Folder(path=tmp_path).prepare()
    assert (tmp_path / "tidegate.yaml").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tidegate.yaml", "warehouse"]


def test_a_link_in_the_demo_is_removed_and_what_it_leads_to_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = Folder(path=tmp_path / "demo")
    folder.prepare()
    (folder.path / "warehouse").symlink_to(outside)
    folder.prepare()
    assert (outside / "precious").read_text() == "x"
    assert not (folder.path / "warehouse").exists()


def test_a_file_in_the_way_is_an_error_of_one_sentence(tmp_path):
    (tmp_path / "demo").write_text("a file")
    with pytest.raises(ConfigError, match="cannot use the folder"):
        Folder(path=tmp_path / "demo").prepare()


def test_the_next_day_needs_a_demo(tmp_path):
    with pytest.raises(ConfigError, match="does not contain a demo"):
        Folder(path=tmp_path).refuse_stranger()
