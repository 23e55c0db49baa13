"""Recognizes a URL whose login was written without encoding, which every parser would cut at another place."""

from __future__ import annotations

import re

ENCODE = (
    "Encode what a URL cannot hold: @ is %40, / is %2F, ? is %3F, # is %23; or put the password into a variable, which "
    "is encoded by itself: scheme://user:${PASSWORD}@host."
)


def unencoded(url: str) -> bool:
    """Whether a password or user holds a character that ends it for a parser, so that its rest is taken for a host.

    Example:
        >>> [unencoded(f"postgresql://app:{word}@host/shop") for word in ("p%40ss", "p@ss", "p/ss", "p#ss", "p?ss")]
        [False, True, True, True, True]
        >>> unencoded("trino://host:8080/lake?user=me@example.com"), unencoded("sqlite:///a@b.db")
        (False, False)
    """
    scheme, found, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not found or not scheme or not host:
        return False  # a file has no login
    if "@" in host:
        return host.count("@") > 1
    port = host.rpartition(":")[2] if ":" in host and not host.endswith("]") else "0"
    return "@" in rest and (not port.isdigit() or "@" in rest.partition("?")[0])
