"""Reads JSON files with Python's own parser: one document per line, or one array of documents.

A line has exactly one object. Never changes a digit of a number.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]

from tidegate.core.schema import Column, Kind
from tidegate.errors import ConfigError
from tidegate.sources.shared.deep import deep
from tidegate.sources.shared.reference.values import NUMBERS, UNLIKE, TextRules, ValueRefused, of_texts

Opener = Callable[[], AbstractContextManager[IO[bytes]]]
ROWS = 8_192
PIECE = 1 << 20
KNOWN = frozenset({"encoding", "charset", "round", "dateformat", "timestampformat", "timestampntzformat", "timezone"})
MEANINGLESS = frozenset({"multiline", "locale", "linesep", "prefersdecimal", "primitivesasstring"})
LINE = re.compile(r"\r\n|\r|\n")
BLANK = re.compile(r"[ \t\r\n]*")
ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u00[0-9a-f]{2}")


class Number(str):
    """A number of a document, as it is written there."""

    __slots__ = ()


class Fields(dict[str, Any]):
    """The fields of an object, of which a name can stand there twice."""

    __slots__ = ("pairs",)
    pairs: list[tuple[str, Any]]


def _object(pairs: list[tuple[str, Any]]) -> Fields:
    found = Fields(pairs)
    found.pairs = pairs
    return found


def _never(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_never, object_pairs_hook=_object)


def checked(options: Mapping[str, str]) -> None:
    """Raises ConfigError for an option that changes what documents are and that only Spark knows."""
    unknown = sorted(set(options) - KNOWN - MEANINGLESS)
    if unknown:
        raise ConfigError(
            f"options: {unknown[0]} is not supported by the reader that verifies files",
            hint="Write the files as RFC 8259 specifies, or set `verify: none` and compare the table by other means.",
        )


def texts(opened: Opener, encoding: str, *, whole: bool = False) -> Iterator[str]:
    """The text of every document.

    Args:
        whole: a file is one document, on several lines.

    Raises:
        ValueError: bytes that are no text, an array that does not end.
    """
    with opened() as content:
        read = codecs.getreader("utf-8-sig" if encoding == "utf-8" else encoding)(content, "strict")
        head = read.read(PIECE)
        while head and not head.strip():
            head = read.read(PIECE)
        if head.lstrip()[:1] == "[":
            yield from _listed(head.lstrip()[1:], read)
            return
        if whole:
            rest = head + read.read()
            yield from [rest] if rest.strip() else []
            return
        for line in _lines(head, read):
            text = line.lstrip("\ufeff")
            if text.strip(" \t\r"):
                yield text


def document(text: str) -> dict[str, Any]:
    """The fields of one document.

    Raises:
        ValueError: it is no object, there is more than one, or it is nested deeper than Spark reads it.
    """
    found = deep(lambda: DECODER.decode(text))
    if not isinstance(found, Fields):
        raise ValueError("a document that is not an object")  # noqa: TRY004 - of the file, not of a caller
    if len(found) < len(found.pairs):
        raise ValueError("an object has a duplicate name")
    return found


def batches(
    opened: Opener,
    columns: Sequence[Column],
    options: Mapping[str, str],
    lacking: Mapping[str, str | None],
    *,
    stated: frozenset[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The values of these columns as Arrow arrays by name.

    The column without a name tells the number of rows.

    Args:
        lacking: texts of columns for documents that do not have them; others are NULL there.
        stated: the columns whose types somebody has stated; in the others a text is neither a number nor a boolean.
            None for all of them.
    """
    checked(options)
    rules = TextRules.of(options, base64=True)
    encoding = codecs.lookup(options.get("encoding") or options.get("charset") or "utf-8").name
    found = texts(opened, encoding, whole=options.get("multiline", "false").lower() == "true")
    while some := list(islice(found, ROWS)):
        rows = [_row(text, columns, lacking) for text in some]
        made = {"": pa.nulls(len(rows))}
        for number, column in enumerate(columns):
            if stated is not None and column.name not in stated:
                _refuse_unlike(column, (row[number] for row in rows))
            try:
                values = pa.array([_text(row[number]) for row in rows], pa.string())
                made[column.name] = of_texts(values, column.type, rules)
            except (ValueError, ArithmeticError, LookupError) as error:
                raise ValueRefused(f"column {column.name!r} has a value that is not a valid {column.type}") from error
        yield made


def _row(text: str, columns: Sequence[Column], lacking: Mapping[str, str | None]) -> list[Any]:
    """The value of each column, as the document has it; of what is nested its text."""
    fields = document(text)
    values = [fields.get(column.name, lacking.get(column.name)) for column in columns]
    return deep(lambda: [_text(each) if isinstance(each, dict | list) else each for each in values])


def _refuse_unlike(column: Column, values: Iterator[Any]) -> None:
    """Raises ValueRefused for a value of which the column's type would not have been inferred."""
    wanted = bool if column.type.kind is Kind.BOOLEAN else Number if column.type.kind in NUMBERS else object
    if not all(value is None or isinstance(value, wanted) for value in values):
        raise ValueRefused(
            f"column {column.name!r} has a value that is not written as a {column.type}, and that type was inferred",
            hint=UNLIKE.format(name=column.name),
        )


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else written(value)


def written(value: Any) -> str:
    """The JSON of a value without blanks, with every digit of its numbers, and escapes only where they are needed."""
    match value:
        case Number():
            return str(value)
        case str():
            return ESCAPED.sub(lambda found: found[0].upper().replace("U", "u"), json.dumps(value, ensure_ascii=False))
        case Fields():
            return "{" + ",".join(f"{written(name)}:{written(each)}" for name, each in value.pairs) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case _:
            return json.dumps(value)


def _over(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    return found.end() if found else at


def _lines(head: str, read: Any) -> Iterator[str]:
    rest = head
    while True:
        # Only these end a line: `splitlines` would also cut at U+2028.
        *whole, rest = LINE.split(rest) if "\r" in rest else rest.split("\n")
        yield from whole
        piece = read.read(PIECE)
        if not piece:
            yield rest
            return
        rest += piece


def _listed(rest: str, read: Any) -> Iterator[str]:
    at, first = 0, True
    while True:
        began = at = _over(rest, at)
        follows = rest[at : at + 1]
        if follows == "," and not first:
            at = _over(rest, at + 1)
        elif follows not in ("", "]") and not first:
            raise ValueError("two objects of an array without a comma")
        if follows == "]":
            if (rest[at + 1 :] + read.read()).strip():
                raise ValueError("there is text after the array")
            return
        try:
            if rest[at : at + 1] not in ("{", ""):
                raise ValueError("a document that is not an object")
            _, end = deep(partial(DECODER.raw_decode, rest, at))
        except json.JSONDecodeError:
            piece = read.read(max(PIECE, len(rest) - at))
            if not piece:
                raise
            rest, at = rest[began:] + piece, 0
            continue
        yield rest[at:end]
        at, first = end, False
