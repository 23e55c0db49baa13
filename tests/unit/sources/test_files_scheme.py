"""A path that nobody can list is refused before anything starts, with the line and what to write in its place."""

from __future__ import annotations

import pytest

from support.workspace import Workspace
from tidegate import config
from tidegate.config.project import load
from tidegate.errors import ConfigError
from tidegate.sources.shared.files.store import check_path

PROJECT = """\
streams:
  prices:
    target: lake.s.t
    strategy: {strategy}
    {write}
    source:
      path: {path}
      {more}
"""


@pytest.mark.parametrize(
    "path", ["https://example.org/a.csv", "HTTP://example.org/a.csv", "sftp://h/a.csv", "nope://b/*.csv"]
)
@pytest.mark.parametrize("more", ["format: csv", "{a log of events}"])
def test_schemes_that_nobody_serves_are_errors_of_the_project(path, more, tmp_path):
    log = more.startswith("{")
    more = "format: json\n      envelope: debezium" if log else more
    text = PROJECT.format(path=path, more=more, strategy="cdc" if log else "full", write="key: [id]\n    write: merge")
    file = tmp_path / "tidegate.yaml"
    file.write_text(text)
    found = load(file).streams[0].source
    given = {"folder": tmp_path, "lakes": {}, "connections": {}} if log else {}
    with pytest.raises(ConfigError, match=rf"tidegate\.yaml:\d+: .*{path.partition(':')[0].lower()}://") as caught:
        config.build("sources", found, **given)
    assert "path: s3://bucket/landing" in caught.value.hint


@pytest.mark.parametrize(
    "path", ["/a/b.csv", "file:///a/b.csv", "s3://b/*.csv", "gs://b/x.csv", "abfss://c@a.dfs/x", "hdfs://n/x"]
)
def test_schemes_that_are_served_pass(path):
    check_path(path)


def test_the_check_command_says_it(tmp_path):
    workspace = Workspace(folder=tmp_path)
    workspace.write(
        {
            "t": {
                "source": {"path": "https://example.org/a.csv"},
                "target": "lake.s.t",
                "strategy": "files",
                "write": "append",
            }
        },
        connections={},
    )
    done = workspace.cli("check")
    said = done.stdout + done.stderr
    assert done.returncode == 2
    assert "tidegate.yaml:" in said
    assert "https://" in said
    assert "report" not in said
