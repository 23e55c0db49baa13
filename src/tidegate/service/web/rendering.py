"""Makes pages of templates: every text is redacted, then escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from tidegate.core.display import short_duration

NOTHING = "-"


def environment(redact: Callable[[str], str]) -> Environment:
    """The templates; what they print is without secrets, and never HTML unless a chart or template made it.

    Args:
        redact: masks the project's secrets.
    """

    def clean(value: Any) -> Any:
        if value is None:
            return ""
        return redact(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=PackageLoader("tidegate.service.web"),
        autoescape=True,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"moment": moment, "number": number, "bytes": size, "span": span, "words": words}
    return made


def page(made: Environment, name: str, values: Mapping[str, Any], *, status: int = 200) -> HTMLResponse:
    """The answer with that template."""
    return HTMLResponse(made.get_template(name).render(values), status_code=status)


def moment(value: datetime | None) -> str:
    """A time in UTC, to the second."""
    return NOTHING if not value else f"{value:%Y-%m-%d %H:%M:%S}Z"


def number(value: float | None) -> str:
    """With thousands apart; fractions only of numbers below a thousand.

    Example:
        >>> number(1234567), number(1.25), number(None)
        ('1,234,567', '1.25', '-')
    """
    if not isinstance(value, int | float):
        return NOTHING
    return f"{value:,.2f}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes in the largest unit.

    Example:
        >>> size(1_500_000), size(12), size(None)
        ('1.5 MB', '12 B', '-')
    """
    if not isinstance(value, int | float):
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def span(value: float | None) -> str:
    """Seconds in their two largest units."""
    return short_duration(timedelta(seconds=value)) if isinstance(value, int | float) else NOTHING


def words(value: object) -> str:
    """A name as people read it."""
    return str(value).replace("_", " ").lower()
