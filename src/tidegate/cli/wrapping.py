"""Breaks long lines for a terminal at words; a command in backticks stays in one piece, so that it can be copied."""

from __future__ import annotations

import re
import shutil
from typing import TextIO

_WORD = re.compile(r"\s*(?:`[^`]*`\S*|\S+)")


def fitted(text: str, stream: TextIO) -> str:
    """The text for the stream: as it is for a pipe."""
    return wrapped(text, shutil.get_terminal_size().columns) if stream.isatty() else text


def wrapped(text: str, width: int) -> str:
    """Lines of at most so many characters, but for words that are longer; what goes on is indented by two more.

    Example:
        >>> print(wrapped("  hint: correct it, then `tidegate run orders`", 24))
          hint: correct it, then
            `tidegate run orders`
    """
    return "\n".join(_line(line, width) for line in text.split("\n"))


def _line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    lines, last = [], ""
    for word in _WORD.findall(line):
        if last.strip() and len(last) + len(word) > width:
            lines.append(last)
            last = indent + word.lstrip()
        else:
            last += word
    return "\n".join([*lines, last])
