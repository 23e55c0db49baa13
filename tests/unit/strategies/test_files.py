"""Which files a run reads, from listings alone; a folder in memory stands for the source."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from support.probes import PartialProbe
from tidegate.core.changes import Action
from tidegate.core.effects import Insert, Upsert
from tidegate.core.ledger import Ledger
from tidegate.core.manifest import File, Listing, Manifest
from tidegate.core.ports.capabilities import ListedFiles
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.errors import ConfigError, HistoryGone, Incompatible, PlanError
from tidegate.strategies.files import Files
from unit.strategies.fakes import Table


@dataclass
class Folder(PartialProbe, ListedFiles):
    """Contents by path; a probe as far as the strategy asks one."""

    contents: dict[str, str] = field(default_factory=dict)
    carrier: str | None = None
    writing: tuple[str, ...] = ()
    stamps: str = "1"
    chosen: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def files(self):
        return self

    def listing(self, known):  # noqa: ARG002 - hashing is not what is tested here
        ready = (
            File(path=path, size=len(text), tag=f"blake2b:{text}", stamp=self.stamps)
            for path, text in self.contents.items()
            if path not in self.writing
        )
        return Listing(ready=Manifest.of(ready), waiting=self.writing)

    def choose(self, files, columns):
        self.chosen, self.columns = tuple(file.path for file in files), dict(columns)

    def schema(self):
        return Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT)))


@dataclass
class Loads:
    """A strategy, what the table's position says and what the registry keeps."""

    folder: Folder
    strategy: Files = field(default_factory=Files)
    position: Position | None = None
    manifest: Manifest = field(default_factory=Manifest)

    def detect(self):
        kept = None
        if self.position is not None and self.manifest.vouched(self.position.state):
            kept = Ledger(files=self.manifest)
        return self.strategy.detect(self.folder, self.position, kept)

    def run(self):
        changes = self.detect()
        if changes is not None and changes.slices:
            read = [part.file for part in changes.parts if part.action is not Action.DELETE]
            gone = [part.file.path for part in changes.parts if part.action is Action.DELETE]
            ways = (self.manifest.loaded(read, gone), Manifest.of(read))
            self.position = Position(sequence=1, load_id="x", kind="files", state=changes.state)
            self.manifest = next(way for way in ways if way.vouched(changes.state))
        return changes


def told(changes):
    return {part.file.path: str(part.action) for part in changes.parts} if changes else None


@pytest.fixture
def loads():
    return Loads(Folder({"a.csv": "1", "b.csv": "22"}))


def test_each_file_is_read_once(loads):
    assert Loads(Folder()).run() is None
    first = loads.run()
    assert told(first) == {"a.csv": "LOAD", "b.csv": "LOAD"}
    assert (first.effect, first.bytes) == (Insert(), 3)
    assert first.slices[0].paths == ("a.csv", "b.csv")
    assert loads.run() is None
    loads.folder.contents["sub/c.csv"] = "3"
    second = loads.run()
    assert told(second) == {"sub/c.csv": "LOAD"}
    assert loads.folder.chosen == ("sub/c.csv",)
    assert loads.folder.columns == {"id": "bigint", "name": "string"}
    assert second.observed.skipped == 2
    assert loads.run() is None


def test_the_answers_of_an_api_cannot_be_adopted():
    """Which of them a table holds, only its own position says."""

    class Answers(Folder):
        progress = {"batch": 1}  # noqa: RUF012 - as a probe of an API has it

    contents = {"batch-0000000001.parquet": "1"}
    assert Files().adopted(Folder(contents))[1].files
    with pytest.raises(ConfigError, match="cannot be adopted"):
        Files().adopted(Answers(contents))


def test_another_content_of_the_same_size_is_a_change(loads):
    loads.run()
    loads.folder.contents["b.csv"] = "33"
    changes = loads.run()
    assert told(changes) == {"b.csv": "RELOAD"}
    assert isinstance(changes.effect, Upsert)
    assert changes.repeats == "b.csv is not the same as when loaded"
    assert "b.csv" in changes.notes[0]
    assert loads.run() is None


def test_a_touched_file_moves_nothing_and_its_stamp_is_remembered(loads):
    loads.run()
    loads.folder.stamps = "2"
    changes = loads.detect()
    assert changes.slices == ()
    assert told(changes) == {"a.csv": "SKIP", "b.csv": "SKIP"}
    assert {part.file.stamp for part in changes.parts} == {"2"}


def test_a_file_that_is_being_written_waits_and_is_not_gone(loads):
    loads.strategy = Files(on_delete="remove")
    loads.folder.carrier = "_file"
    loads.run()
    loads.folder.writing = ("b.csv",)
    assert loads.run() is None
    loads.folder.contents["b.csv"] = "whole"
    loads.folder.writing = ()
    assert told(loads.run()) == {"b.csv": "RELOAD"}


def test_a_file_that_is_gone_stays_by_default_also_when_it_comes_back(loads):
    loads.run()
    text = loads.folder.contents.pop("a.csv")
    assert loads.run() is None
    loads.folder.contents["c.csv"] = "3"
    assert told(loads.run()) == {"c.csv": "LOAD"}
    loads.folder.contents["a.csv"] = text
    assert loads.run() is None


def test_a_file_that_is_gone_takes_its_rows_along(loads):
    loads.strategy, loads.folder.carrier = Files(on_delete="remove"), "_file"
    loads.run()
    loads.folder.contents.pop("a.csv")
    changes = loads.run()
    assert told(changes) == {"a.csv": "DELETE"}
    assert changes.slices[0].carrier == "_file"
    assert changes.repeats
    assert loads.folder.chosen == ()
    assert loads.run() is None
    loads.folder.contents["a.csv"] = "1"
    assert told(loads.run()) == {"a.csv": "LOAD"}


def test_without_names_no_rows_can_be_removed_and_later_ones_are_not_relied_on(loads):
    loads.run()
    loads.folder.carrier = "_file"
    loads.folder.contents["a.csv"] = "9"
    assert loads.run().slices[0].carrier is None
    loads.strategy, loads.folder.carrier = Files(on_delete="remove"), None
    loads.folder.contents.pop("a.csv")
    with pytest.raises(PlanError, match="which rows") as caught:
        loads.run()
    assert "file_name" in caught.value.hint


def test_a_file_that_was_moved_is_the_file_that_was_loaded(loads):
    loads.strategy = Files(on_move="keep", on_delete="remove")
    loads.folder.contents |= {"day=1/c.csv": "3", "twin.csv": "22"}
    loads.run()
    before = dict(loads.manifest.files)
    moved = loads.folder.contents
    moved |= {"old/a.csv": moved.pop("a.csv"), "new.csv": "4"}
    changes = loads.run()
    assert told(changes) == {"new.csv": "LOAD", "a.csv": "DELETE", "old/a.csv": "SKIP"}
    assert (changes.effect, loads.folder.chosen, changes.reason) == (Insert(), ("new.csv",), "files: 1 new, 1 moved")
    assert loads.manifest.files["old/a.csv"].loaded == before["a.csv"].loaded
    moved["archive.csv"] = moved.pop("old/a.csv")
    changes = loads.run()
    assert (changes.slices[0].paths, loads.folder.chosen, changes.reason) == ((), (), "files: 1 moved")
    assert loads.run() is None
    moved["copy.csv"] = moved["archive.csv"]
    assert told(loads.run()) == {"copy.csv": "LOAD"}
    moved["archive.csv"] = "5"
    assert told(loads.run()) == {"archive.csv": "RELOAD"}
    loads.strategy = Files(on_move="keep")
    moved["day=2/c.csv"] = moved.pop("day=1/c.csv")
    assert told(loads.run()) == {"day=2/c.csv": "LOAD"}


def test_a_move_is_no_move_where_rows_carry_a_path_or_nobody_asked(loads):
    loads.run()
    loads.folder.contents["c.csv"] = loads.folder.contents.pop("a.csv")
    assert told(loads.detect()) == {"c.csv": "LOAD"}
    loads.strategy, loads.folder.carrier = Files(on_move="keep"), "file"
    with pytest.raises(Incompatible, match=r"`file_name: file`"):
        loads.detect()


@pytest.mark.parametrize("option", ["on_change", "on_delete"])
def test_stop_means_stop(loads, option):
    loads.strategy = Files(**{option: "stop"})
    loads.run()
    loads.folder.contents = {"b.csv": "22"} if option == "on_delete" else {"a.csv": "9", "b.csv": "22"}
    with pytest.raises(HistoryGone, match=r"a\.csv") as caught:
        loads.run()
    assert f"--set {option}=" in caught.value.hint


def test_a_lost_registry_and_the_same_files_are_nothing_and_remembered(loads):
    loads.run()
    loads.manifest = Manifest()
    changes = loads.run()
    assert changes.slices == ()
    assert Manifest.of(part.file for part in changes.parts).vouched(loads.position.state)


def test_a_lost_registry_and_other_files_are_read_again_never_taken_for_new(loads):
    loads.run()
    loads.manifest = Manifest()
    loads.folder.contents["c.csv"] = "3"
    changes = loads.run()
    assert told(changes) == dict.fromkeys(("a.csv", "b.csv", "c.csv"), "RELOAD")
    assert changes.repeats == "there is no record of which of the files are in the table"
    assert loads.run() is None
    # What was kept of a file before the loss is forgotten, so a file that comes back may be there.
    loads.folder.contents["d.csv"] = "4"
    after = loads.run()
    assert told(after) == {"d.csv": "LOAD"}
    assert after.repeats


def test_a_registry_that_the_position_does_not_vouch_for_is_not_believed(loads):
    loads.run()
    loads.manifest = Manifest.of([*loads.manifest.files.values(), File(path="c.csv", size=1, tag="blake2b:3")])
    loads.folder.contents["c.csv"] = "3"
    assert told(loads.run()) == dict.fromkeys(("a.csv", "b.csv", "c.csv"), "RELOAD")


def test_a_table_is_no_folder_and_files_have_no_cursor():
    with pytest.raises(Incompatible, match="path"):
        Files().detect(Table(), None)
    with pytest.raises(ConfigError, match="no cursor"):
        Files().resume("5")
    position = Position(sequence=1, load_id="x", kind="files", state=Files().resume(None))
    assert Loads(Folder({"a": "1"}), position=position).run().repeats
