"""Stable identifiers: targets, connections and the uid of a stream.

They depend on no run, registry or machine.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_PART = r"`(?:[^`]|``)+`|[^.`]+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table: the lake (the catalog's name), the namespace, the table."""

    lake: str
    namespace: tuple[str, ...]
    table: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Lake, namespace and table in order."""
        return (self.lake, *self.namespace, self.table)

    def __str__(self) -> str:
        return join_name(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A named way to a source; what it holds may be secret and is never shown.

    Args:
        url: the URL of a database, such as `postgresql://user@host:5432/database` or `sqlite:///file.db`.
        kafka: Kafka brokers, `host:port` with commas between them.
        options: options of the Kafka client: `security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, …
        registry: the URL of the schema registry that belongs to these brokers.
        plain_http: send the login of the schema registry over http:// beyond this machine, where others may read it.
    """

    name: str
    url: str = field(default="", repr=False)
    kafka: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    registry: str | None = field(default=None, repr=False)
    plain_http: bool = False

    @property
    def scheme(self) -> str:
        """What stands before `://` in the URL, without the driver that `+` may add."""
        return self.url.partition("://")[0].partition("+")[0]


RESERVED = "__tidegate_"
"""What the name of a table holds only where Tidegate keeps something beside a table of that project."""


def join_name(parts: Iterable[str]) -> str:
    """The text of a name of several parts; a part that holds a dot or a quote stands in backticks."""
    return ".".join(f"`{part.replace('`', '``')}`" if set(part) & set('.`"') else part for part in parts)


def split_name(text: str) -> tuple[str, ...]:
    """The inverse of `join_name`: dots outside backticks separate, a doubled backtick stands for one.

    Raises:
        ValueError: an empty part, or a backtick without its pair.

    Example:
        >>> split_name("lake.shop.`odd.name`")
        ('lake', 'shop', 'odd.name')
    """
    if not re.fullmatch(rf"(?:{_PART})(?:\.(?:{_PART}))*", text):
        raise ValueError("must be names separated by dots; put a name that contains a dot in backticks")
    parts = re.findall(_PART, text)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)


def stream_uid(name: str, target: Target) -> str:
    """The identity of a stream: sixteen hex digits of its name and target.

    It survives restarts and the loss of the registry. A renamed stream is another one unless the project
    states `uid:`.
    """
    return hashlib.sha256("\0".join((name, *target.parts)).encode()).hexdigest()[:16]


def new_load_id() -> str:
    """A fresh mark for one load."""
    return uuid.uuid4().hex
