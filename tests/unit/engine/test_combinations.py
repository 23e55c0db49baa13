"""The combinations that `check` accepts: what they are made of, what is refused, and that both follow one rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate import plugins
from tidegate.api import Project
from tidegate.core.policies.deletes import Deletes
from tidegate.engine.assemble.combinations import Combination, judged

URLS = {
    "sqlite": "sqlite:///a.db",
    "duckdb": "duckdb:///a.duckdb",
    "postgresql": "postgresql://h/d",
    "mariadb": "mariadb://h/d",
    "trino": "trino://me@h/c",
    "oracle": "oracle://me:pw@h/d",
    "snowflake": "snowflake://me:pw@h/d",
    "sqlserver": "sqlserver://me:pw@h/d",
    "teradata": "teradata://me:pw@h/d",
}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {"dms": {"kind": "dms", "sequence": "at"}}


@pytest.fixture(scope="module")
def all_of_them() -> dict[Combination, tuple[str, ...]]:
    return dict(judged())


def source_of(combination: Combination, number: int) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912 - one a flavour
    """A source of that flavour as a project states it."""
    place, _, envelope = combination.flavour.partition(", ")
    match combination.source, *place.split():
        case "database", dialect, "query":
            return {"connection": dialect, "query": "SELECT 1 AS id"}
        case "database", dialect:
            return {"connection": dialect, "table": "main.t"}
        case "http", _:
            return {"http": {"url": "https://h/rows", "paginator": "single_page"}}
        case "dlt", _:
            return {"dlt": "module:rows"}
        case "files", form, "with", "file_name":
            return {"path": "in", "format": form, "file_name": "source_file"}
        case "files", form:
            return {"path": "in", "format": form}
        case "lake_table", table_format:
            return {table_format: f"{table_format}_lake.raw.t"}
        case "change_log", "slot":
            return {"connection": "postgresql", "slot": f"s{number}", "table": "public.t"}
        case "change_log", "sqlserver", "capture", "instance":
            return {"connection": "sqlserver", "capture_instance": "t", "table": "main.t"}
        case "change_log", "sqlserver", "change", "tracking":
            return {"connection": "sqlserver", "change_tracking": True, "table": "main.t"}
        case "change_log", "topic":
            return {"connection": "events", "topic": "t", "envelope": EXAMPLES.get(envelope, envelope)}
        case "change_log", form, "files":
            return {"path": "in", "format": form, "envelope": EXAMPLES.get(envelope, envelope)}
        case "change_log", table_format, "table":
            name = f"{table_format}_lake.raw.t"
            return {table_format: name, "envelope": EXAMPLES.get(envelope, envelope)}
        case _:
            raise AssertionError(combination)


def project_of(found: list[Combination], folder: Path) -> Project:
    streams = {
        f"s{number}": {
            "source": source_of(each, number),
            "target": f"{each.table_format}_lake.out.t{number}",
            "strategy": {"kind": each.strategy, **each.options},
            "write": each.writer,
            "deletes": {
                "detect": str(each.deletes.detect),
                "apply": str(each.deletes.apply),
                "scope": str(each.deletes.scope),
            },
            **({"key": ["id"]} if each.keyed else {}),
        }
        for number, each in enumerate(found)
    }
    events = {"events": {"kafka": "h:9092", "registry": "http://h"}}
    values = {
        "lakes": {f"{kind}_lake": {"format": kind} for kind in plugins.names("formats")},
        "connections": {**{name: {"url": url} for name, url in URLS.items()}, **events},
        "streams": streams,
    }
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(values))
    return Project.load(folder / "tidegate.yaml", trusted=True)


def sample(found: dict[Combination, tuple[str, ...]], *, accepted: bool) -> Iterator[Combination]:
    """Of each source and table format one in many, so that every part takes part."""
    wanted = [each for each, reasons in found.items() if (not reasons) == accepted and each.strategy != "table_changes"]
    yield from wanted[:: max(1, len(wanted) // 150)]
    yield from (each for each, reasons in found.items() if (not reasons) == accepted and each.strategy == "cdc")


@pytest.mark.parametrize("accepted", [True, False])
def test_check_says_of_a_project_what_the_rule_says_of_its_parts(tmp_path, all_of_them, accepted):
    chosen = list(dict.fromkeys(sample(all_of_them, accepted=accepted)))
    if not accepted:
        chosen = chosen[:: max(1, len(chosen) // 150)]
    with project_of(chosen, tmp_path) as project:
        checked = {stream.name: stream.problems for stream in project.check()}
    wrong = {str(each): checked[f"s{n}"] for n, each in enumerate(chosen) if (not checked[f"s{n}"]) != accepted}
    assert wrong == {}


def test_every_plugin_is_in_one(all_of_them):
    found = [each for each, reasons in all_of_them.items() if not reasons]
    assert {each.strategy for each in found} == set(plugins.names("strategies"))
    assert {each.writer for each in found} == set(plugins.names("writers"))
    assert {each.source for each in found} == set(plugins.names("sources"))
    assert {each.table_format for each in found} == set(plugins.names("formats"))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"strategy": "cdc", "writer": "replace"}, "reads events, and write: replace accepts only whole tables"),
        ({"strategy": "cdc", "writer": "append"}, "reads events, and write: append accepts only changed rows"),
        ({"strategy": "watermark", "writer": "replace"}, "reads changed rows"),
        ({"strategy": "sequence", "flavour": "trino"}, "it has no safe bound for numbers"),
        ({"strategy": "sequence", "flavour": "sqlite query"}, "it has no safe bound for numbers"),
        ({"strategy": "smart", "method": "column", "flavour": "trino"}, "it has no safe bound for timestamps"),
        ({"strategy": "watermark", "method": "column", "flavour": "trino"}, "`clock: application`"),
        ({"strategy": "full", "source": "change_log"}, "this source is a change log; use strategy cdc"),
        ({"strategy": "checksum", "method": "by_range", "flavour": "sqlite"}, "sqlite has none"),
        ({"strategy": "checksum", "method": "by_range", "flavour": "postgresql query"}, "query has none"),
        ({"strategy": "files", "method": "remove", "flavour": "csv"}, "file_name: source_file"),
        ({"strategy": "files", "method": "remove", "writer": "scd2"}, "write: scd2 keeps every version"),
        ({"strategy": "snapshot_diff", "method": "significant", "writer": "scd2"}, "records every one of them"),
        ({"strategy": "watermark", "deletes": "soft"}, "would never mark a row"),
        ({"strategy": "files", "deletes": "soft", "flavour": "parquet"}, "would never mark a row"),
        ({"strategy": "full", "deletes": "scope"}, "add `detect: key_diff`"),
        ({"strategy": "watermark", "method": "nulls", "deletes": "window"}, "give the strategy a `lookback:`"),
    ],
    ids=str,
)
def test_parts_that_cannot_run_or_mean_nothing_are_refused(all_of_them, parts, reason):
    modes = {
        "soft": Deletes(apply="soft"),
        "scope": Deletes(scope="window"),
        "window": Deletes(detect="key_diff", scope="window"),
    }
    wanted = {**parts, **({"deletes": modes[parts["deletes"]]} if "deletes" in parts else {})}
    found = {
        each: reasons
        for each, reasons in all_of_them.items()
        if all(getattr(each, name) == value for name, value in wanted.items())
    }
    assert found
    assert all(any(reason in each for each in reasons) for reasons in found.values())
