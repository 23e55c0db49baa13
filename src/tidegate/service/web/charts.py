"""Charts as SVG: text of the page, so that they need no script and can be tested.

Colours are classes of the stylesheet. Each chart has a title that says what it shows to those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

Bar = tuple[str, float, str]
"""What a bar stands for, its value, and the class that colours it."""


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


def columns(bars: Sequence[Bar], title: str, *, unit: str = "") -> Markup:
    """A larger one, with the highest value written beside it."""
    width, height, top = 640, 120, max((value for _, value, _ in bars), default=0)
    step = width / max(len(bars), 1)
    drawn = [
        _rect(number * step, 12 + height - high, max(step - 1, 1), high, kind, f"{label}: {value:,.1f}{unit}")
        for number, (label, value, kind) in enumerate(bars)
        for high in [max(value / (top or 1) * height, 1)]
    ]
    drawn.append(f'<text x="0" y="9" class="axis">{escape(f"{top:,.1f}{unit}")}</text>')
    return _svg("columns", width, height + 12, title, drawn)


def waterfall(stages: Sequence[tuple[str, float, float]], title: str) -> Markup:
    """A line for each stage: its name, when it began and how long it took, both in seconds."""
    whole = max((began + took for _, began, took in stages), default=0) or 1
    width, line, left = 640, 24, 90
    room = width - left - 80
    drawn = []
    for number, (name, began, took) in enumerate(stages):
        y, x = number * line, left + began / whole * room
        long = max(took / whole * room, 1)
        drawn.append(f'<text x="0" y="{y + 16}" class="axis">{escape(name)}</text>')
        drawn.append(_rect(x, y + 4, long, line - 8, "ok" if took else "none", f"{name}: {took:.2f} s"))
        drawn.append(f'<text x="{x + long + 6:.1f}" y="{y + 16}" class="axis">{took:.2f} s</text>')
    return _svg("waterfall", width, line * len(stages), title, drawn)


def heat_map(cells: Sequence[tuple[str, str]], title: str, *, across: int = 31) -> Markup:
    """A square for each part, in rows; a part is its label and the class that colours it."""
    size, gap = 16, 3
    drawn = [
        _rect(number % across * (size + gap), number // across * (size + gap), size, size, kind, f"{label}: {kind}")
        for number, (label, kind) in enumerate(cells)
    ]
    lines = (len(cells) + across - 1) // across
    return _svg("heat", across * (size + gap), max(lines, 1) * (size + gap), title, drawn)


def _rect(x: float, y: float, width: float, height: float, kind: str, label: str) -> str:  # noqa: PLR0913, PLR0917
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} class="{escape(kind)}"><title>{escape(label)}</title></rect>'


def _svg(kind: str, width: float, height: float, title: str, drawn: Sequence[str]) -> Markup:
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return Markup(  # noqa: S704 - every text in it is escaped above
        f'<svg class="{kind}" {box} role="img" aria-label="{escape(title)}">{"".join(drawn)}</svg>'
    )
