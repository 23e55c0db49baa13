"""The table of certified databases is what the reports in the package say.

`tidegate certify URL --yes --report src/tidegate/dialects/certificates/KIND-MAJOR.json` makes one, then
`python tests/docs/test_certified.py` writes the table.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from tidegate import plugins
from tidegate.certify.report import FORMAT
from tidegate.engine.certificates import shipped

PAGE = Path(__file__).parents[2] / "docs" / "sources" / "certified.md"
BEGIN, END = "<!-- made from the reports -->\n", "<!-- until here -->\n"
HEADS = ("database", "Python's driver", "Spark's driver", "Spark", "date", "passed", "not supported", "failed")


def made() -> str:
    reports = [each.report for each in shipped()]
    lines = [HEADS, ["---"] * len(HEADS), *map(_cells, reports)]
    certified = {report["dialect"] for report in reports}
    kinds = [kind for kind in plugins.names("dialects") if plugins.load("dialects", kind).connects]
    kinds = sorted([*kinds, "mysql"])  # of MariaDB's dialect, which no report shows
    others = [f"`{kind}`" for kind in kinds if kind not in certified]
    rows = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    return f"{BEGIN}\n{rows}\nNot certified yet, on any version: {', '.join(others) or 'none'}.\n\n{END}"


def _cells(report: dict) -> list[object]:
    versions, server = report["versions"], report["server"]
    known = {"tidegate", "spark", "python", "jdbc"}
    driver = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in known)
    counts = report["counts"]
    return [
        f"{server['product']} {server['version']}",
        driver,
        f"`{versions['jdbc']}`",
        versions["spark"],
        report["date"],
        *(counts[state] for state in ("passed", "not supported", "failed")),
    ]


def test_the_page_lists_the_reports_that_are_kept() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert made() == BEGIN + text.partition(BEGIN)[2].partition(END)[0] + END


def test_the_reports_say_what_they_are_about() -> None:
    for file in (resources.files("tidegate.dialects") / "certificates").iterdir():
        report = json.loads(file.read_text(encoding="utf-8"))
        assert report["format"] == FORMAT
        assert file.name == f"{report['dialect']}-{report['server']['major']}.json"
        assert (report["counts"]["failed"], report["left"]) == (0, []), "a report of a failure is no certificate"
        assert len(report["cases"]) == sum(report["counts"].values())


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + made() + rest.partition(END)[2], encoding="utf-8")
