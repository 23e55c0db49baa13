"""Writes names as YAML, for project files and for the lines that an error proposes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What JSON writes as it is, and YAML refuses or takes for the end of a line."""
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def scalar(text: str, *, is_key: bool = False) -> str:
    """A string as YAML: plain if that is unambiguous, else in double quotes.

    Example:
        >>> print(scalar("public.orders"), scalar("a: b"))
        public.orders "a: b"
    """
    # A name may hold what looks like a reference; keys are never resolved.
    quoted = json.dumps(text if is_key else text.replace("${", "$${"), ensure_ascii=False)
    quoted = UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    return text if PLAIN.fullmatch(text) and text.lower() not in WORDS else quoted


def listed(texts: Iterable[str]) -> str:
    """A list on one line.

    Example:
        >>> listed(["a", "b c"])
        '[a, "b c"]'
    """
    return f"[{', '.join(map(scalar, texts))}]"


def mapped(texts: Mapping[str, str]) -> str:
    """A mapping on one line.

    Example:
        >>> mapped({"amount": "decimal(20,4)", "note": "text"})
        '{amount: "decimal(20,4)", note: text}'
    """
    return f"{{{', '.join(f'{scalar(name, is_key=True)}: {scalar(text)}' for name, text in texts.items())}}}"
