"""What `bench.growth` measured, as the table and the plot of docs/benchmarks.md.

The page keeps the lines of earlier runs that a run did not measure again, because all of them take hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from bench.rivals_page import DOCS, replaced

MARKS = ("<!-- growth -->\n", "<!-- /growth -->")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 60, 210, 36, 34
COLOURS = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e")


HEAD = (
    "| what grows | | job | Tidegate, s | by hand, s | by hand / Tidegate | measured | load average |",
    "|---|---|---|---|---|---|---|---|",
)


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """A row for each job and size, beside the MERGE by hand and its ratio to Tidegate."""
    return "\n".join((*HEAD, *map(_row, lines)))


def _row(line: Mapping[str, Any]) -> str:
    hand = line["by_hand"]
    beside = f"{hand:.1f} | {hand / line['seconds']:.2f}" if hand is not None else " | "
    cells = (line["grows"], f"{line['size']:,}", line["job"], f"{line['seconds']:.1f}", beside)
    return "| " + " | ".join((*cells, line["measured"], f"{line['load']:.1f}")) + " |"


def lines_of(page: str) -> list[dict[str, Any]]:
    """The lines of the table that the page holds."""
    rows = page.partition(HEAD[1] + "\n")[2].partition("\n\n")[0].splitlines() if HEAD[0] in page else []
    found = []
    for row in rows:
        grows, size, job, seconds, hand, _, measured, load = (cell.strip() for cell in row.strip("|").split("|"))
        line = {"grows": grows, "size": int(size.replace(",", "")), "job": job, "seconds": float(seconds)}
        found.append({**line, "by_hand": float(hand) if hand else None, "measured": measured, "load": float(load)})
    return found


def merged(older: Sequence[Mapping[str, Any]], newer: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Both, the newer in place of the older of the same job and size, sizes in order within what grows."""
    found = {(line["grows"], line["size"], line["job"]): line for line in (*older, *newer)}
    order = list(dict.fromkeys(grows for grows, _, _ in found))
    return sorted(found.values(), key=lambda line: (order.index(line["grows"]), line["size"]))


def write(lines: Sequence[Mapping[str, Any]]) -> None:
    """Puts the lines into the page's table and plot."""
    page = DOCS / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    lines = merged(lines_of(text), lines)
    told = f"{table(lines)}\n\n![Seconds by what grows](images/growth.svg)\n"
    page.write_text(replaced(text, MARKS, told), encoding="utf-8")
    (DOCS / "images" / "growth.svg").write_text(plot(lines), encoding="utf-8")


def plot(measured: Sequence[Mapping[str, Any]]) -> str:
    """A panel for each thing that grows, both axes logarithmic; by hand is dashed."""
    drawn: list[str] = []
    panels = [(grows, list(lines)) for grows, lines in groupby(measured, key=lambda line: line["grows"])]
    for number, (grows, lines) in enumerate(panels):
        drawn += _panel(grows, lines, number * HEIGHT)
    height = HEIGHT * len(panels)
    box = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    style = 'font-family="sans-serif" font-size="13" fill="#212529"'
    back = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    body = "\n".join(drawn)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>\n{back}\n{body}\n</svg>\n'


def _panel(grows: str, lines: Sequence[Mapping[str, Any]], top: int) -> Iterator[str]:
    sizes = sorted({line["size"] for line in lines})
    spent = [value for line in lines for value in (line["seconds"], line["by_hand"]) if value is not None]
    least, most = 10 ** math.floor(math.log10(min(spent))), 10 ** math.ceil(math.log10(max(spent)))
    bottom = top + HEIGHT - BOTTOM

    def at(size: float, seconds: float) -> str:
        across = _share(size, sizes[0], sizes[-1]) * (WIDTH - LEFT - RIGHT)
        up = _share(seconds, least, most) * (HEIGHT - TOP - BOTTOM)
        return f"{LEFT + across:.0f},{bottom - up:.0f}"

    yield f'<text x="8" y="{top + 20}" font-weight="bold">{grows}: seconds</text>'
    for exponent in range(round(math.log10(least)), round(math.log10(most)) + 1):
        x, y = at(sizes[0], 10**exponent).split(",")
        yield f'<path d="M{x} {y}H{WIDTH - RIGHT}" stroke="#dee2e6"/>'
        yield f'<text x="{LEFT - 8}" y="{int(y) + 4}" text-anchor="end">{10**exponent:g}</text>'
    for size in sizes:
        x, _ = at(size, least).split(",")
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{size:,}</text>'
    jobs = list(dict.fromkeys(line["job"] for line in lines))
    for number, job in enumerate(jobs):
        colour, mine = COLOURS[number], [line for line in lines if line["job"] == job]
        for value, dashes in (("seconds", ""), ("by_hand", ' stroke-dasharray="4 4"')):
            points = [at(line["size"], line[value]) for line in mine if line[value] is not None]
            if points:
                yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{WIDTH - RIGHT + 16}" y="{top + TOP + 12 + 20 * number}" fill="{colour}">{job}</text>'
    if any(line["by_hand"] is not None for line in lines):
        yield f'<text x="{WIDTH - RIGHT + 16}" y="{top + TOP + 12 + 20 * len(jobs)}">dashed: by hand</text>'


def _share(value: float, least: float, most: float) -> float:
    """Where it is between the two, on a logarithmic scale from 0 to 1."""
    return math.log(value / least) / math.log(most / least) if most > least else 0.0
