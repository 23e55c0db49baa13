"""Which version of a lake table answers a question, with lists for rows."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.change_feed import EMPTY
from tidegate.core.ids import Target
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.sources.lake_table import LakeProbe
from tidegate.sources.shared.frame_probe import Frame, LazySpark

IDS = Schema(columns=(Column(name="id", type=BIGINT),))


@dataclass
class Rows:
    """As much of a DataFrame as a version is read by."""

    ids: list[int]
    columns: tuple[str, ...] = ("id",)

    def selectExpr(self, *_):  # noqa: N802 - Spark's name
        return self

    def where(self, condition):
        assert condition == "false"
        return Rows([])


class Versions:
    """Version 3 holds row 3, and the newest holds row 7."""

    def at(self, _session, _target, version, columns):
        assert columns == IDS
        return Rows([int(version or 7)])


def test_a_version_answers_for_itself_and_that_of_an_empty_table_for_nothing():
    frame = Frame(label="t", identity="a", schema=lambda: IDS, rows=lambda _: Rows([7]), version="7")
    target = Target(lake="lake", namespace=("s",), table="t")
    probe = LakeProbe(frame, LazySpark(None), Versions(), target)
    found = {version: probe._at(version).frame.rows(None).ids for version in ("7", "3", EMPTY)}
    assert found == {"7": [7], "3": [3], EMPTY: []}, "what came since is not what an empty table held"
