"""Finds the messages of files that tell the columns: of each schema that messages of the table carry one.

Looks at every line, but parses only those whose schema was not seen before: the text of a schema is the same in all
messages until a column changes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.core.log import Message
from tidegate.sources.shared.files.shape import unpacked
from tidegate.storage import Store

SAMPLE = 200
"""Messages without a schema that are kept of each file, and messages of others by which a schema is known as theirs."""
PAYLOAD = re.compile(rb'"payload"\s*:')
"""Where the schema of a message ends; within a text of JSON its quotes would stand behind a backslash."""
SCHEMA = re.compile(rb'\s*\{\s*"schema"\s*:\s*\{')


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSample:
    """What is looked at.

    Args:
        own: which messages may be events of the table, see `MessageEnvelope.own`.
        paths: the files that are read, in order.
        earlier: those before; the newest of them that has an event of the table tells where the files have none.
        most: lines of each file; None for all.
    """

    store: Store
    own: Callable[[Sequence[Message]], list[bool]]
    paths: Sequence[str]
    earlier: Sequence[str]
    most: int | None


def messages(of: FileSample) -> list[Message]:
    """Messages of the table, of each schema one, the newest schema last."""
    sample = LineSample(of.own)
    for path in of.paths:
        _look_at(path, of, sample)
    for path in reversed(of.earlier):
        if sample.found:
            break
        _look_at(path, of, sample)
    return sample.messages()


def _look_at(path: str, of: FileSample, sample: LineSample) -> None:
    with of.store.open(path) as content:
        sample.take(itertools.islice(unpacked(content, path), of.most))


@dataclass(slots=True, kw_only=True)
class _Seen:
    """A schema: a message of the table that carries it, and how many of others were looked at before."""

    message: Message | None = None
    others: int = 0


@dataclass(slots=True)
class LineSample:
    """The messages that tell the columns of lines.

    Args:
        own: which messages may be events of the table, see `MessageEnvelope.own`.
        found: whether there was one.
    """

    own: Callable[[Sequence[Message]], list[bool]]
    found: bool = False
    _first: list[Message] = field(default_factory=list)
    _seen: dict[bytes, _Seen] = field(default_factory=dict)
    _last: bytes | None = None

    def take(self, lines: Iterable[bytes]) -> None:
        """Looks at the lines of one file, which follow those of the files before."""
        wanted = SAMPLE
        for line in lines:
            if self._last is not None and line.startswith(self._last) and self._seen[self._last].message:
                continue
            schema = next((each for each in self._seen if line.startswith(each)), None) or _schema_of(line)
            if schema is not None:
                self._take(schema, line)
            elif (wanted > 0 or not self.found) and line.strip():
                wanted -= 1
                self._first += self._kept(line)

    def messages(self) -> list[Message]:
        """Those without a schema, then one of each schema, that of the newest message last."""
        return [*self._first, *(each.message for each in self._seen.values() if each.message)]

    def _take(self, schema: bytes, line: bytes) -> None:
        seen = self._seen.pop(schema, None) or _Seen()
        if seen.message is None and (seen.others < SAMPLE or not self.found):
            seen.message = next(self._kept(line), None)
            seen.others += seen.message is None
        self._seen[schema] = seen
        self._last = schema

    def _kept(self, line: bytes) -> Iterator[Message]:
        message = Message(key=None, value=line.strip())
        if self.own([message])[0]:
            self.found = True
            yield message


def _schema_of(line: bytes) -> bytes | None:
    """What stands before the payload of a message that carries its schema; None where it carries none before it."""
    if not SCHEMA.match(line):
        return None
    found = PAYLOAD.search(line)
    return line[: found.end()] if found else None
