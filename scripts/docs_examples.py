"""An extension of mkdocstrings: the `Example:` of a docstring is shown as code."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

BLOCK = re.compile(r"^Example:\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)


class Examples(griffe.Extension):
    """Makes the section that the parser knows of each example, and a fence of one that is no session."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that is documented."""
        if obj.docstring is not None:
            obj.docstring.value = BLOCK.sub(_section, obj.docstring.value)


def _section(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[1]).strip("\n")
    shown = code if code.startswith(">>>") else f"```python\n{code}\n```"
    return f"Examples:\n{textwrap.indent(shown, '    ')}\n"
