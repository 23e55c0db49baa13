"""Charts as SVG: text of the page, so that they need no script and can be tested.

Colours are classes of the stylesheet. Each chart has a title that says what it shows to those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from markupsafe import Markup, escape

from tidegate.core.intervals import IntervalState
from tidegate.service.web.ledger_calendar import Calendar

Bar = tuple[str, float, str]
"""What a bar stands for, its value, and the class that colours it."""
STEP = 15
"""From one square to the next."""
SLACK = 0.02
"""Seconds by which two spans may seem to overlap, for their ends are measured one after the other."""
MARKS: Mapping[str, str] = {
    IntervalState.UNVERIFIED: "m0 11l11 -11",
    IntervalState.STALE: "m3.5 5.5h4m-2 -2v4",
    IntervalState.FAILED: "m2 2l7 7m0 -7l-7 7",
}
"""From the corner of a square: a diagonal, a plus, a cross; what is proven is filled, what has no rows is hollow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One time that a stage was at work, in seconds since the run began."""

    began: float
    took: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A line of a waterfall; `note` stands beside it."""

    name: str
    spans: Sequence[Span]
    note: str


def sparkline(bars: Sequence[Bar], title: str, *, width: int = 112, height: int = 24) -> Markup:
    """Bars side by side, the highest as high as the chart; a bar of zero is a line at the bottom."""
    top = max((value for _, value, _ in bars), default=0) or 1
    step = width / max(len(bars), 1)
    drawn = [
        _rect(number * step, height - high, max(step - 1.5, 1), high, kind, f"{label}: {value:,.0f}")
        for number, (label, value, kind) in enumerate(bars)
        for high in [max(value / top * height, 1)]
    ]
    return _svg("spark", width, height, title, drawn)


def columns(bars: Sequence[Bar], title: str, highest: str) -> Markup:
    """Larger ones, as wide as there is room, with the highest value written above."""
    width, height, top = 640, 110, max((value for _, value, _ in bars), default=0)
    step = width / max(len(bars), 1)
    drawn = [
        _rect(number * step, height - high, max(step - 1, 1), high, kind, f"{label}: {value:,.1f}")
        for number, (label, value, kind) in enumerate(bars)
        for high in [max(value / (top or 1) * height, 1)]
    ]
    return Markup('<p class="axis">{}</p>').format(highest) + _svg(
        "columns", width, height, title, drawn, stretched=True
    )


def waterfall(stages: Sequence[Stage], title: str) -> Markup:
    """A line for each stage: its name, its spans on one time axis, those that overlap below each other, and seconds."""
    whole = max((span.began + span.took for stage in stages for span in stage.spans), default=0) or 1
    lines = []
    for stage in stages:
        lanes = _lanes(stage.spans)
        drawn = [
            _rect(
                span.began / whole * 1000,
                lane * 12 + 1 + thin,
                max(span.took / whole * 1000, 2),
                10 - 2 * thin,
                span.kind,
                span.label,
            )
            for lane, spans in enumerate(lanes)
            for span in spans
            for thin in [3 if span.kind == "background" else 0]
        ]
        label = f"{stage.name}: " + (", ".join(span.label for span in stage.spans) or "did not run")
        bar = _svg("lane", 1000, 12 * max(len(lanes), 1), label, drawn, stretched=True)
        lines.append(Markup("<li><span>{}</span>{}<span>{}</span></li>").format(stage.name, bar, stage.note))
    return Markup('<ol class="waterfall" aria-label="{}">{}</ol>').format(title, Markup("").join(lines))


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans in lanes, in each of which none overlaps another."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda each: each.began):
        free = (lane for lane in lanes if lane[-1].began + lane[-1].took <= span.began + SLACK)
        lane = next(free, None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


def strip(cells: Sequence[tuple[str, str]], title: str, *, across: int = 31) -> Markup:
    """A square for each part, in rows; a part is its label and its state."""
    placed = [(number % across, number // across, kind, label) for number, (label, kind) in enumerate(cells)]
    lines = (len(cells) + across - 1) // across
    return _cells(placed, (min(across, len(cells)) * STEP, max(lines, 1) * STEP), title)


def calendar(found: Calendar, title: str) -> Markup:
    """Weeks as columns and days as rows; of hours, days as rows and the hours of a day as columns."""
    if found.hourly:
        days = (found.last - found.first).days + 1
        placed = [(cell.at.hour, (cell.at.date() - found.first).days, cell.known, cell.label) for cell in found.cells]
        names = [(-80, number * STEP + 11, f"{found.first + timedelta(number):%Y-%m-%d}") for number in range(days)]
        names += [(hour * STEP, -4, f"{hour}") for hour in range(0, 24, 6)]
        return _cells(placed, (24 * STEP, days * STEP), title, names=names, left=80)
    monday = found.first - timedelta(found.first.weekday())
    placed = [((cell.at.date() - monday).days // 7, cell.at.weekday(), cell.known, cell.label) for cell in found.cells]
    weeks = (found.last - monday).days // 7 + 1
    names = [(-32, row * STEP + 11, name) for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))]
    return _cells(placed, (weeks * STEP, 7 * STEP), title, names=[*names, *_months(monday, weeks)], left=32)


def _months(monday: date, weeks: int) -> list[tuple[float, float, str]]:
    """The name of each month above the week in which it begins; the year beside January and the first one."""
    found: list[tuple[float, float, str]] = []
    for week in range(weeks):
        sunday = monday + timedelta(min(week * 7 + 6, (date.max - monday).days))
        if sunday.day <= 7 or (week == 0 and sunday.day <= 21):
            text = f"{sunday:%b %Y}" if sunday.month == 1 or not found else f"{sunday:%b}"
            found.append((week * STEP, -4, text))
    return found


def key(kind: str) -> Markup:
    """The square of a state, for a legend."""
    return _cells([(0, 0, kind, "")], (STEP, STEP), "")


def _cells(
    placed: Sequence[tuple[int, int, str, str]],
    size: tuple[float, float],
    title: str,
    *,
    names: Sequence[tuple[float, float, str]] = (),
    left: float = 0,
) -> Markup:
    """Squares by column and row. Each state has its own mark, so that colour is never the only cue."""
    top = 16 if names else 0
    drawn = [f'<text x="{x + left:.0f}" y="{y + top:.0f}" class="axis">{escape(text)}</text>' for x, y, text in names]
    marks: dict[str, list[str]] = {}
    for column, row, kind, label in placed:
        x, y = column * STEP + left + 0.5, row * STEP + top + 0.5
        drawn.append(_rect(x, y, STEP - 4, STEP - 4, f"cell {kind}", label))
        if kind in MARKS:
            marks.setdefault(kind, []).append(f"M{x:.1f} {y:.1f}{MARKS[kind]}")
    drawn += [f'<path class="mark {escape(kind)}" d="{"".join(paths)}"/>' for kind, paths in marks.items()]
    width = max([size[0] + left, *(x + left + 7 * len(text) for x, _, text in names)])
    return _svg("cells", width, size[1] + top, title, drawn)


def _rect(x: float, y: float, width: float, height: float, kind: str, label: str) -> str:  # noqa: PLR0913, PLR0917
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    named = f"<title>{escape(label)}</title>" if label else ""
    return f'<rect {place} class="{escape(kind)}">{named}</rect>'


def _svg(  # noqa: PLR0913 - as above
    kind: str, width: float, height: float, title: str, drawn: Sequence[str], *, stretched: bool = False
) -> Markup:
    room = 'width="100%" preserveAspectRatio="none"' if stretched else f'width="{width:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" height="{height:.0f}" {room}'
    named = f'role="img" aria-label="{escape(title)}"' if title else 'aria-hidden="true"'
    return Markup(f'<svg class="{kind}" {box} {named}>{"".join(drawn)}</svg>')  # noqa: S704 - every text is escaped
