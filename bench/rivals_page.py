"""What `bench.rivals` measured, as the table and the plot of docs/benchmarks.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
MARKS = ("<!-- rivals -->\n", "<!-- /rivals -->")
WIDTH, PANEL, BAR, LABELS = 760, 28, 20, 220
COLOURS = {"Tidegate": "#0b7285", "dlt": "#adb5bd", "ingestr": "#868e96"}


def table(document: Mapping[str, Any]) -> str:
    """A row for each contender, a column for each job: the seconds of its rounds, and the median of its cores'."""
    jobs, cpu = document["seconds"], document["cpu"]
    names = list(dict.fromkeys(name for seconds in jobs.values() for name in seconds))
    lines = [
        "| seconds (CPU seconds) | " + " | ".join(_title(document, job) for job in jobs) + " |",
        "|---" * (len(jobs) + 1) + "|",
    ]
    for name in names:
        cells = [_cell(jobs[job].get(name, ()), [] if "service" in name else cpu[job].get(name, ())) for job in jobs]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(seconds: Sequence[float], cpu: Sequence[float]) -> str:
    cores = f" ({statistics.median(cpu):.1f})" if cpu else ""
    return ", ".join(f"{spent:.1f}" for spent in seconds) + cores


def goals(document: Mapping[str, Any]) -> str:
    """A row for each goal."""
    lines = ["| job | Tidegate | compared with | goal | ratio | |", "|---|---|---|---|---|---|"]
    for goal in document["goals"]:
        told = "reached" if goal["reached"] else "**missed**"
        share, ratio = f"at most {goal['share']:g}", f"{goal['ratio']:.2f}"
        lines.append(f"| {goal['job']} | {goal['ours']} | {goal['rival']} | {share} | {ratio} | {told} |")
    return "\n".join(lines)


def write(document: Mapping[str, Any]) -> None:
    """Replaces the page's table and plot."""
    page = DOCS / "benchmarks.md"
    load = document["load"]
    when = document["measured_at"][:10]
    rounds = len(load) // len(document["seconds"])
    about = (
        f"Measured {when}, {rounds} round{'s' * (rounds > 1)} on {document['about']['cores']} cores, load average "
        f"{min(load):.1f} to {max(load):.1f} before the tools started. In brackets are the\n"
        "CPU seconds of the command, on which other work has little influence; those of a service are not counted."
    )
    text = f"{about}\n\n{table(document)}\n\n{goals(document)}\n\n![Seconds by job](images/rivals.svg)\n"
    page.write_text(replaced(page.read_text(encoding="utf-8"), MARKS, text), encoding="utf-8")
    (DOCS / "images" / "rivals.svg").write_text(plot(document), encoding="utf-8")


def replaced(page: str, marks: tuple[str, str], text: str) -> str:
    """The page with this text between its two marks."""
    begin, end = marks
    return re.sub(f"(?s){begin}.*{end}", lambda _: f"{begin}{text}{end}", page)


def plot(document: Mapping[str, Any]) -> str:
    """A panel of bars for each job, on a scale of its own."""
    drawn, y = [], 0
    for job, medians in document["medians"].items():
        longest = max(medians.values())
        drawn.append(f'<text x="8" y="{y + 20}" font-weight="bold">{_title(document, job)}, seconds</text>')
        y += PANEL
        for name, spent in medians.items():
            drawn += _bar(name, spent, (WIDTH - LABELS - 60) * spent / longest, y)
            y += BAR
        y += BAR // 2
    box = f'viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"'
    style = 'font-family="sans-serif" font-size="13" fill="#212529"'
    lines = "\n".join(drawn)
    back = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>\n{back}\n{lines}\n</svg>\n'


def _bar(name: str, spent: float, length: float, y: int) -> Iterator[str]:
    colour = COLOURS[name.partition(" ")[0]]
    yield f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{name}</text>'
    yield f'<rect x="{LABELS}" y="{y + 2}" width="{length:.0f}" height="{BAR - 4}" fill="{colour}"/>'
    yield f'<text x="{LABELS + length + 5:.0f}" y="{y + 14}">{spent:.1f}</text>'


def _title(document: Mapping[str, Any], job: str) -> str:
    about = document["about"]
    counts = {"neighbouring rows": about["neighbouring"], "scattered rows": about["scattered"]}
    return f"{counts[job]:,} {job}" if job in counts else job
