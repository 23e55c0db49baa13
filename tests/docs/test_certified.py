"""The page of certified databases is what the table in the package says.

`tidegate certify URL --yes --report shop.json` makes a report; `python tests/docs/test_certified.py shop.json` puts it
in place of an older one of the same release series, and writes the page.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import tidegate.dialects
from tidegate import plugins
from tidegate.engine.certificates import certified

PAGE = Path(__file__).parents[2] / "docs" / "sources" / "certified.md"
TABLE = Path(tidegate.dialects.__file__).parent / "certified.toml"
BEGIN, END = "<!-- made from certified.toml -->\n", "<!-- until here -->\n"
HEADS = ("database", "Python's driver", "Spark's driver", "Spark", "date", "passed", "not supported")
REPORT: dict[str, Any] = {
    "dialect": "oracle",
    "server": {"product": "Oracle", "version": "19.3", "major": "19"},
    "versions": {"tidegate": "1.0", "spark": "4.1.3", "python": "3.11.7", "oracledb": "3.0", "jdbc": "a:b:1"},
    "date": "2027-01-01",
    "counts": {"passed": 99, "not supported": 1, "failed": 0},
    "cases": [
        {"name": "cdc", "state": "not supported", "detail": "…"},
        {"name": "full: first load", "state": "passed", "detail": ""},
    ],
    "left": [],
}


def made() -> str:
    lines = [HEADS, ["---"] * len(HEADS)]
    lines += [
        (
            f"{each.product} {each.version}",
            each.driver,
            f"`{each.jdbc}`",
            each.spark,
            each.date,
            str(each.passed),
            str(len(each.not_supported)),
        )
        for each in certified()
    ]
    known = {each.dialect for each in certified()}
    kinds = [kind for kind in plugins.names("dialects") if plugins.load("dialects", kind).connects]
    kinds = sorted([*kinds, "mysql"])  # of MariaDB's dialect, which no report shows
    others = [f"`{kind}`" for kind in kinds if kind not in known]
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    names = "".join(f"- {each.product}: {'; '.join(told(each.not_supported))}\n" for each in certified())
    return (
        f"{BEGIN}\n{rows}\nNot certified yet, on any version: {', '.join(others) or 'none'}.\n\nNot supported:\n\n"
        f"{names}\n{END}"
    )


def told(names: Iterable[str]) -> list[str]:
    """The same, with the types of which no change is found in one line."""
    by_finder: dict[str, list[str]] = {}
    for name in names:
        column, _, finder = name.partition(": a change is found by ")
        by_finder.setdefault(finder, []).append(column)
    others = by_finder.pop("", [])
    return [f"changes of {', '.join(columns)} by `{finder}`" for finder, columns in by_finder.items()] + others


def entry(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the table says of a report. A report of a failure is no certificate."""
    assert (report["counts"]["failed"], report["left"]) == (0, [])
    server, versions = report["server"], dict(report["versions"])
    own = {name: versions.pop(name) for name in ("tidegate", "spark", "python", "jdbc")}
    ((driver, number),) = versions.items()
    return {
        "dialect": report["dialect"],
        "product": server["product"],
        "series": server["major"],
        "version": server["version"],
        "date": report["date"],
        **own,
        "driver": f"{driver} {number}",
        "passed": report["counts"]["passed"],
        "not_supported": [case["name"] for case in report["cases"] if case["state"] == "not supported"],
    }


def text_of(entries: Iterable[Mapping[str, Any]]) -> str:
    """The table: a value of JSON is one of TOML, too."""
    lines = [TABLE.read_text(encoding="utf-8").partition("\n")[0]]
    for each in sorted(entries, key=lambda each: (each["dialect"], each["series"])):
        lines += ["", "[[certified]]"]
        for name, value in each.items():
            whole = [f"{name} = {json.dumps(value, ensure_ascii=False)}"]
            lines += (
                [f"{name} = [", *(f"  {json.dumps(one)}," for one in value), "]"] if isinstance(value, list) else whole
            )
    return "\n".join(lines) + "\n"


def with_reports(reports: Iterable[Mapping[str, Any]]) -> str:
    """The table with these reports in it."""
    known = {(each["dialect"], each["product"], each["series"]): each for each in _entries()}
    for report in map(entry, reports):
        known[report["dialect"], report["product"], report["series"]] = report
    return text_of(known.values())


def _entries() -> list[dict[str, Any]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["certified"]


def test_the_page_lists_the_servers_that_are_certified() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert made() == BEGIN + text.partition(BEGIN)[2].partition(END)[0] + END


def test_the_table_is_as_the_reports_are_written_to_it() -> None:
    assert with_reports([]) == TABLE.read_text(encoding="utf-8")
    added = tomllib.loads(with_reports([REPORT]))["certified"]
    assert [each for each in added if each not in _entries()] == [entry(REPORT)]
    assert with_reports([REPORT, {**REPORT, "date": "2027-01-02"}]).count('"Oracle"') == 1


def test_a_report_of_a_failure_is_no_certificate() -> None:
    with pytest.raises(AssertionError):
        entry({**REPORT, "counts": {**REPORT["counts"], "failed": 1}})


if __name__ == "__main__":
    TABLE.write_text(with_reports(json.loads(Path(each).read_text(encoding="utf-8")) for each in sys.argv[1:]))
    certified.cache_clear()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + made() + rest.partition(END)[2], encoding="utf-8")
