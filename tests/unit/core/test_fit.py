"""Which strategies read which sources, told by what both declare before anything runs."""

import pytest

from tidegate import config
from tidegate.api import Project
from tidegate.core.compatibility import incompatibilities
from tidegate.core.flavours import flavours_of
from tidegate.engine.assemble import assemble
from tidegate.errors import Incompatible
from tidegate.sources.database import Database
from tidegate.sources.files import Files as FilesSource
from tidegate.sources.lake_table import LakeTable
from tidegate.strategies.files import Files
from tidegate.strategies.full import Full
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.table_changes import TableChanges
from tidegate.writers.merge import Merge

CASES = [
    (Files(), FilesSource, None),
    (Files(), Database, "does not have (Files)"),
    (Files(), LakeTable, "does not have (Files)"),
    (TableChanges(), FilesSource, "does not have (SnapshotPair)"),
    (TableChanges(), LakeTable, None),
    (Full(), FilesSource, None),
    (SnapshotDiff(), FilesSource, None),
]


@pytest.mark.parametrize(("strategy", "source", "refused"), CASES, ids=str)
def test_a_strategy_reads_the_slices_that_a_source_has(strategy, source, refused):
    flavour = next(flavours_of(source))
    found = incompatibilities(strategy=strategy, writer=Merge(), key=("id",), flavour=flavour)
    assert (refused is None) == (found == ())
    assert refused is None or refused in found[0]


@pytest.mark.parametrize(
    ("source", "strategy"), [("{connection: shop, table: a}", "files"), ("{path: in/*.csv}", "table_changes")]
)
def test_a_project_of_parts_that_do_not_fit_is_refused_with_its_line(tmp_path, source, strategy):
    stream = f"  a: {{source: {source}, target: lake.s.a, key: [id], strategy: {strategy}, write: merge}}"
    (tmp_path / "tidegate.yaml").write_text(f"connections: {{shop: 'sqlite:///x.db'}}\nstreams:\n{stream}\n")
    read = config.load(tmp_path)
    with pytest.raises(
        Incompatible, match=rf"tidegate.yaml:3.*strategy {strategy} reads slices that this source does not"
    ):
        assemble.streams(read, assemble.formats(read), assemble.Choice())


@pytest.mark.parametrize("database", ["spark"])
def test_a_database_that_no_rows_are_read_from_is_refused_by_check(tmp_path, database):
    (tmp_path / "tidegate.yaml").write_text(
        f"connections: {{shop: '{database}://h/d'}}\nstreams:\n"
        "  a:\n    source: {connection: shop, table: s.t}\n    target: lake.s.a\n"
        "    strategy: full\n    write: replace\n"
    )
    with Project.load(tmp_path) as project:
        ((problem,),) = (stream.problems for stream in project.check())
    assert "tidegate.yaml:4: streams.a.source" in problem
    assert f"rows cannot be read from {database}; `url:` must begin with one of duckdb://, mariadb://" in problem
