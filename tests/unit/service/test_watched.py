"""When a changed project is looked at: once, and again where it was refused, for its source may have been down."""

from itertools import pairwise

import pytest

from tidegate.service.supervisor import AT_MOST, TRY_AGAIN, ProjectFile


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tidegate.yaml"
    path.write_text("a")
    return path


def test_a_change_is_noticed_once(file):
    watched = ProjectFile(file, None)
    assert not watched.changed(10)
    file.write_text("b")
    assert not watched.changed(11), "it is looked at every other second"
    assert [watched.changed(now) for now in (12, 14, 10_000)] == [True, False, False]


def test_one_that_was_refused_is_tried_again_and_again_until_it_is_not(file):
    watched, now, tried = ProjectFile(file, None), 0, []
    file.write_text("b")
    while now < 5000:
        now += 2
        if watched.changed(now):
            tried.append((now, watched.again))
            watched.refused(now)
    assert tried[0] == (2, False)
    waits = [later - earlier for (earlier, _), (later, _) in pairwise(tried)]
    assert waits[:3] == [TRY_AGAIN, 2 * TRY_AGAIN, 4 * TRY_AGAIN]
    assert (max(waits), all(again for _, again in tried[1:])) == (AT_MOST, True)
    file.write_text("c")
    assert watched.changed(now + 2)
    assert not watched.again, "a new change is told of"
    assert not watched.changed(now + 10_000), "and is not tried again where it was taken"


def test_while_the_file_is_gone_nothing_is_tried(file):
    watched = ProjectFile(file, None)
    file.write_text("b")
    assert watched.changed(2)
    watched.refused(2)
    file.unlink()
    assert not watched.changed(100)
