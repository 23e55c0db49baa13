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
    near = nearest(word, ordered)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(ordered) or 'none'}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word; None when none is near.

    Example:
        >>> nearest("Orders", ["orders", "items"])
        'orders'
    """
    folded = {each.casefold(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(word.casefold(), sorted(folded), n=1, cutoff=0.6)
    return folded[near[0]] if near else None
