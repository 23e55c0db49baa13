"""Makes characters visible that a terminal obeys or hides, so that a name or an error from elsewhere is only shown.

An escape sequence could recolour a result, rename the window or fill the clipboard; a control of direction shows
`txt.exe` where `exe.txt` stands (CVE-2021-42574).
"""

from __future__ import annotations

import json
import re

# Controls of C0 but tab and line feed, DEL, C1, marks and overrides of direction, and what has no width, but for the
# two joiners, which words and emoji are written with.
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""The text for a terminal or a log.

    Example:
        >>> visible("or\x1b[2Jders"), visible("\u202etxt.exe"), visible("Grüße\t表\n")
        ('or\\x1b[2Jders', '\\u202etxt.exe', 'Grüße\t表\n')
    """
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_line(text: str) -> str:
    r"""The text in one line, which cannot pass for a line of its own.

    Example:
        >>> visible_line("a\nerror: b")
        'a\\nerror: b'
    """
    return visible(text).replace("\n", "\\n")


def visible_json(document: str) -> str:
    """The same JSON document, with these characters as the escapes that JSON has for them."""
    return _ACTIVE.sub(lambda found: json.dumps(found[0])[1:-1], document)
