"""Suggests the known word that a misspelt one is nearest to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """The nearest known word, or all of them when none is near.

    Example:
        >>> suggest("verfy", ["key", "verify"])
        "did you mean 'verify'?"
    """
    ordered = sorted(known)
    near = difflib.get_close_matches(word, ordered, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ordered) or 'none'}"
