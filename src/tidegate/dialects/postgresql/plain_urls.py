"""Recognizes URLs that libpq takes for certain, so that looking at a project does not load the driver for 0.2 s."""

from __future__ import annotations

import re

OPTIONS = frozenset(
    {
        "application_name",
        "connect_timeout",
        "host",
        "options",
        "password",
        "sslcert",
        "sslkey",
        "sslpassword",
        "sslrootcert",
        "user",
    }
)
"""Options that every libpq knows and whose values it does not look at before it connects."""
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PART = r"(?:[\w.~!$'()*+,;-]|%(?!00)[0-9A-Fa-f]{2})*"
_SERVER = re.compile(rf"[a-z]+(?:\+\w+)?://(?:{_PART}(?::{_PART})?@)?[\w.-]*(?::\d+)?(?:/{_PART})?", re.ASCII)
_OPTION = re.compile(r"(?P<name>\w+)=(?P<value>(?:[\w.~/:@,-]|%(?!00)[0-9A-Fa-f]{2})*)", re.ASCII)


def plain(url: str) -> bool:
    """Whether nothing about a URL can be wrong; of any other, libpq has to say.

    Example:
        >>> [plain(f"postgresql://{rest}") for rest in ("me:p%40s@h:1/d?sslmode=require", "h/d?foo=1", "a,b/d", "h/%d")]
        [True, False, False, False]
    """
    server, asked, query = url.partition("?")
    found = [_OPTION.fullmatch(each) for each in query.split("&")] if asked else []
    return bool(_SERVER.fullmatch(server)) and all(each is not None and _known(**each.groupdict()) for each in found)


def _known(name: str, value: str) -> bool:
    return value in MODES if name == "sslmode" else value.isdigit() if name == "port" else name in OPTIONS
