"""What each error code means, from the page "Errors" of the documentation, which is part of the package."""

from __future__ import annotations

import re
from pathlib import Path

SECTION = re.compile(r"^### `(?P<code>\w+)`\n(?P<text>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| \[`(?P<code>\w+)`\]\(\S+\)(?: ↻)? \| (?P<exit>\d+) \| (?P<meaning>.+) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((\S+?)\)")


def overview() -> tuple[tuple[str, str, str], ...]:
    """Every code with its exit code and a short meaning, in the order of the page."""
    return tuple((row["code"], row["exit"], row["meaning"]) for row in ROW.finditer(_page()))


def find(code: str) -> str | None:
    """The section of a code as Markdown, with links as text and the page's name; None for an unknown code."""
    sections = {section["code"]: section["text"] for section in SECTION.finditer(_page())}
    return LINK.sub(r"\1 (docs/\2)", sections[code]).strip() if code in sections else None


def _page() -> str:
    return Path(__file__).with_name("errors.md").read_text(encoding="utf-8")
