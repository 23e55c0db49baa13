"""Projects that no run could load: `check` names the file, the line, what is wrong and what to write."""

from __future__ import annotations

import sqlite3

import pytest

from tidegate.api import Project
from tidegate.errors import ConfigError

HEAD = """\
connections: {shop: "sqlite:///shop.db", events: {kafka: "h:9092"}}
lakes: {lake: {}, delta_lake: {format: delta}}
streams:
"""
ONE = "  a:\n    source: {{connection: shop, table: t}}\n    target: {target}\n    strategy: full\n    write: replace\n"


def problems(folder, streams: str) -> list[str]:
    """Everything that `check` says, whether or not the project can be read."""
    with sqlite3.connect(folder / "shop.db") as shop:
        for name in ("t", "u", "orders", "Orders_2"):
            shop.execute(f"create table if not exists {name} (id integer primary key, at timestamp)")
    shop.close()
    (folder / "tidegate.yaml").write_text(HEAD + streams)
    try:
        with Project.load(folder) as project:
            return [problem for stream in project.check() for problem in stream.problems]
    except ConfigError as error:
        return [error.message, *error.context.get("more", ())]


def stream(**changes: str) -> str:
    values = {
        "source": "{connection: shop, table: t}",
        "target": "lake.x.t",
        "strategy": "full",
        "write": "replace",
        **changes,
    }
    return "  a:\n" + "".join(f"    {key}: {value}\n" for key, value in values.items())


IMPOSSIBLE = [
    (
        stream(source="{connection: shop, table: t, include: []}"),
        5,
        "include: must name at least one column; leave it out to read all of them",
    ),
    (
        stream(source="{path: in/*.csv, exclude: [ssn], columns: {ssn: text}}"),
        5,
        "streams.a.source: columns: a type is stated for 'ssn', which `include` or `exclude` leaves out",
    ),
    (
        stream(source="{path: in/*.csv, exclude: [ssn], options: {header: false}}"),
        5,
        "streams.a.source: `include:` and `exclude:` need names, and CSV with `header: false` has none",
    ),
    (
        stream(layout="{partition_by: [days(at), hours(at)]}"),
        9,
        "streams.a.layout: partition_by has both days(at) and hours(at); Iceberg accepts only one of them",
    ),
    (stream(layout="{partition_by: [years(at), day(at)]}"), 9, "has both years(at) and day(at)"),
    (
        stream(layout='{partition_by: ["bucket(4, id)", "bucket(8, id)"]}'),
        9,
        "has both bucket(4, id) and bucket(8, id)",
    ),
    (stream(layout="{partition_by: [id, id]}"), 9, "has both id and id"),
    (stream(layout="{format_version: 4}"), 9, "format_version is 4; it must be 2 or 3"),
    (stream(target="delta_lake.x.t", layout="{partition_by: days(at)}"), 9, "'days(at)' is a transform, which Delta"),
    (stream(target="lake.x.t__tidegate_quarantine"), 6, "contains '__tidegate_', which is reserved for the tables"),
    (stream(target="lake.x.T__Tidegate_applied"), 6, "contains '__tidegate_', which is reserved for the tables"),
    (stream(tags="['nightly, eu']"), 9, "has 'nightly, eu', but a tag cannot contain a comma; write [nightly, eu]"),
    (stream(tags="['']"), 9, "has ''; a tag is not empty and has no spaces around it"),
    (stream(target="delta_lake.x.t", layout="{sort_by: id}"), 9, "sort_by is not supported on Delta; remove it"),
    (stream(target="lake.x.{table}"), 6, "has {table}, which only works in a stream with * or ? in its name"),
    (stream(key="[id, id]"), 9, "names 'id' twice"),
    (stream(source="{connection: events, table: t}"), 5, "connection 'events' has no `url:`"),
]


@pytest.mark.parametrize(("streams", "line", "told"), IMPOSSIBLE, ids=[each[2][:40] for each in IMPOSSIBLE])
def test_what_can_never_run_is_refused_with_its_line(tmp_path, streams, line, told):
    (found,) = problems(tmp_path, streams)
    assert f"tidegate.yaml:{line}: streams.a" in found
    assert told in found


POSSIBLE = [
    stream(layout='{partition_by: [years(at), "bucket(4, id)", "truncate(4, id)"]}'),
    stream(layout="{partition_by: [at, days(at)]}"),
    stream(target='[lake, x, "{table}"]'),
    stream(target="delta_lake.x.t", layout="{partition_by: at}"),
    stream(target="lake.x.a{b}c"),
]


def test_what_can_run_is_accepted(tmp_path):
    for streams in POSSIBLE:
        assert problems(tmp_path, streams) == [], streams


PATTERN = """\
  "*":
    source: {{connection: shop, table: "*"}}
    target: {target}
    strategy: full
    write: replace
"""


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("lake.x.{tabel}", "has {tabel}, which is not a placeholder; did you mean '{table}'"),
        ("lake.{}.{table}", "has {}, which is not a placeholder"),
        ("lake.x.t", "is one table for all matching tables; put {table} where the name of each belongs"),
        ("lake.x.{schema}", "is also the target of stream"),
    ],
)
def test_a_pattern_gives_each_of_its_streams_a_table(tmp_path, target, told):
    (found,) = problems(tmp_path, PATTERN.format(target=f'"{target}"'))
    assert "tidegate.yaml:" in found
    assert told in found


def test_a_pattern_fills_its_placeholders_with_no_target_of_another_stream(tmp_path):
    assert problems(tmp_path, PATTERN.format(target='"lake.{schema}.raw_{table}"')) == []
    (found,) = problems(tmp_path, stream(target="lake.x.u") + PATTERN.format(target='"lake.x.{table}"'))
    assert "lake.x.u is also the target of stream 'a'" in found
