"""Decodes the messages of PostgreSQL's logical replication protocol (pgoutput).

Pure. Bytes that are not version 1 of the protocol are an error.

Source: PostgreSQL documentation, "Logical Replication Message Formats", protocol version 1, values as text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tidegate.errors import SourceError

_BEGIN = struct.Struct("!QqI")
_COMMIT = struct.Struct("!BQQq")
_SHORT = struct.Struct("!h")
_NUMBER = struct.Struct("!I")
_LENGTH = struct.Struct("!i")
_TYPE = struct.Struct("!Ii")
_TRUNCATE = struct.Struct("!IB")


class Unchanged(Enum):
    """What stands for a value that was stored apart (TOAST) and that a change left alone."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Value = bytes | Unchanged | None
Tuple = tuple[Value, ...]


class Begin(NamedTuple):
    """A transaction begins.

    Args:
        commit: where its commit stands in the write-ahead log.
    """

    commit: int
    xid: int


class Commit(NamedTuple):
    """A transaction ends.

    Args:
        commit: as in its beginning.
        end: where the record of the commit ends.
    """

    commit: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationColumn:
    """A column of a relation; `key` says that the old row of an update or a delete carries it."""

    name: str
    key: bool
    type: int
    modifier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What the tuples of a table look like from here on.

    Args:
        identity: `d` (primary key), `n` (nothing), `f` (every column) or `i` (an index).
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    """An inserted row."""

    oid: int
    new: Tuple


class Update(NamedTuple):
    """A row changed.

    Args:
        old: the row before; None where its identity stayed.
        whole: `old` has every column, else the identity's alone.
    """

    oid: int
    old: Tuple | None
    whole: bool
    new: Tuple


class Delete(NamedTuple):
    """A deleted row; `whole` as for an update."""

    oid: int
    old: Tuple
    whole: bool


class Truncate(NamedTuple):
    """Tables were emptied."""

    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A message that changes nothing here: the origin of a transaction, the name of a type."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Ignored


def parse(data: bytes) -> Message:
    """The message of these bytes.

    Raises:
        SourceError: they are cut short, too long, or of a kind that version 1 does not have.
    """
    try:
        message, end = _parse(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise _broken(f"a message of kind {data[:1]!r} is truncated or damaged") from error
    if end != len(data):
        raise _broken(f"a message of kind {data[:1]!r} continues after its end")
    return message


def _parse(data: bytes) -> tuple[Message, int]:  # noqa: PLR0911 - one answer a kind
    match data[:1]:
        case b"I":
            new, end = _tuple(data, _expected(data, 5, b"N"))
            return Insert(oid=_oid(data), new=new), end
        case b"U":
            return _update(data)
        case b"D":
            whole = data[5:6] == b"O"
            old, end = _tuple(data, _expected(data, 5, b"KO"))
            return Delete(oid=_oid(data), old=old, whole=whole), end
        case b"B":
            commit, _, xid = _BEGIN.unpack_from(data, 1)
            return Begin(commit=commit, xid=xid), 1 + _BEGIN.size
        case b"C":
            _, commit, finish, _ = _COMMIT.unpack_from(data, 1)
            return Commit(commit=commit, end=finish), 1 + _COMMIT.size
        case b"R":
            return _relation(data)
        case b"T":
            count, _ = _TRUNCATE.unpack_from(data, 1)
            oids = struct.unpack_from(f"!{count}I", data, 1 + _TRUNCATE.size)
            return Truncate(oids=oids), 1 + _TRUNCATE.size + 4 * count
        case b"O" | b"Y":
            return Ignored(kind=data[:1].decode()), len(data)
        case _:
            raise _broken(f"a message of kind {data[:1]!r} does not exist in version 1")


def _update(data: bytes) -> tuple[Update, int]:
    mark, old, at = data[5:6], None, 5
    if mark in (b"K", b"O"):
        old, at = _tuple(data, 6)
    new, end = _tuple(data, _expected(data, at, b"N"))
    return Update(oid=_oid(data), old=old, whole=mark == b"O", new=new), end


def _relation(data: bytes) -> tuple[Relation, int]:
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = data[at : at + 1].decode("ascii")
    (count,) = _SHORT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        key = bool(data[at] & 1)
        column, at = _string(data, at + 1)
        kind, modifier = _TYPE.unpack_from(data, at)
        at += _TYPE.size
        columns.append(RelationColumn(name=column, key=key, type=kind, modifier=modifier))
    # Of the system's own schema the protocol leaves the name out.
    made = Relation(oid=_oid(data), schema=schema or "pg_catalog", name=name, identity=identity, columns=tuple(columns))
    return made, at


def _tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    (count,) = _SHORT.unpack_from(data, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        mark = data[at]
        at += 1
        if mark == 0x74:  # t: a text follows
            (length,) = _LENGTH.unpack_from(data, at)
            at += 4
            value = data[at : at + length]
            if len(value) != length:
                raise IndexError(at)
            values.append(value)
            at += length
        elif mark == 0x6E:  # n: NULL
            values.append(None)
        elif mark == 0x75:  # u: unchanged
            values.append(UNCHANGED)
        else:
            raise ValueError(mark)
    return tuple(values), at


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _oid(data: bytes) -> int:
    (oid,) = _NUMBER.unpack_from(data, 1)
    return int(oid)


def _expected(data: bytes, at: int, marks: bytes) -> int:
    if data[at] not in marks:
        raise ValueError(data[at])
    return at + 1


def _broken(what: str) -> SourceError:
    return SourceError(
        f"the replication slot answered with something other than protocol version 1: {what}",
        hint="Only the plugin pgoutput is supported: `tidegate slot list` shows the slot's.",
    )
