"""An extension of mkdocstrings: the `Example:` of a docstring is shown as code, and an enumeration tells its values."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

BLOCK = re.compile(r"^Example:\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)


class Shown(griffe.Extension):
    """Changes docstrings on their way to the API reference, never in the sources."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that is documented."""
        if obj.docstring is None:
            return
        obj.docstring.value = BLOCK.sub(_section, obj.docstring.value)
        if obj.is_class and any(str(base).endswith("Enum") for base in obj.bases):
            values = [f"`{each.value}`" for each in obj.attributes.values() if each.value and not each.name.islower()]
            obj.docstring.value += "\n\nOne of " + ", ".join(values).replace("'", "") + "."


def _section(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[1]).strip("\n")
    shown = code if code.startswith(">>>") else f"```python\n{code}\n```"
    return f"Examples:\n{textwrap.indent(shown, '    ')}\n"
