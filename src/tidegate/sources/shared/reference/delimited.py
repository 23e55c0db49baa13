"""Reads CSV files as columns of text, with PyArrow or, where PyArrow lacks an option, with a parser of its own.

RFC 4180 unless options say otherwise. Refuses rows with too few or too many values; an empty quoted string is not NULL.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any, cast

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import csv

from tidegate.errors import ConfigError
from tidegate.sources.shared.reference.values import several

Opener = Callable[[], AbstractContextManager[IO[bytes]]]
BLOCK = 4 * 1024 * 1024
MOST_BLOCK = 1024 * 1024 * 1024
ROWS = 16_384
MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
BLANKS = "".join(map(chr, range(33)))
STRADDLES = "straddling object"
PLAIN = frozenset({"sep", "delimiter", "quote", "escape", "encoding", "charset", "header", "nullvalue", "comment"}) | {
    "null_values",
    "skip_rows",
    "skip_footer",
}
TRIMS = ("ignoreleadingwhitespace", "ignoretrailingwhitespace")
VALUES = frozenset(
    {
        "true_values",
        "false_values",
        "decimal",
        "thousands",
        "round",
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        "timezone",
    }
)
# How Spark works, not what a file means.
MEANINGLESS = frozenset({"multiline", "maxcolumns", "maxcharspercolumn", "preferdate", "locale", "linesep"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How values are separated and quoted.

    Args:
        quote, escape: empty for none; without an `escape` a quote inside quotes is doubled.
        nulls: texts that stand for NULL, in quotes or not. Nothing at all is always NULL.
        comment: lines that begin so are no rows; empty for none.
        trims: whether blanks before and after a value are no part of it.
        skip, footer: lines at the beginning and the end that are no rows.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    header: bool = True
    nulls: tuple[str, ...] = ()
    comment: str = ""
    trims: tuple[bool, bool] = (False, False)
    skip: int = 0
    footer: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Convention:
        """From a reader's options, whose names are in small letters.

        Raises:
            ConfigError: an option that changes what rows are and that only Spark knows.
        """
        unknown = sorted(set(options) - PLAIN - {*TRIMS} - VALUES - MEANINGLESS)
        if unknown:
            raise ConfigError(
                f"options: {unknown[0]} is not supported by the reader that verifies files",
                hint="Write the files without it, or set `verify: none` and compare the table by other means.",
            )
        quote = _character(options.get("quote", '"'))
        escape = _character(options.get("escape", ""))
        return cls(
            separator=(options.get("sep") or options.get("delimiter") or ",").replace("\\t", "\t"),
            quote=quote,
            escape="" if escape == quote else escape,
            encoding=_encoding(options.get("encoding") or options.get("charset") or "utf-8"),
            header=options.get("header", "true").lower() == "true",
            nulls=tuple(
                null for name in ("nullvalue", "null_values") if name in options for null in _nulls(options, name)
            ),
            skip=int(options.get("skip_rows", "0")),
            footer=int(options.get("skip_footer", "0")),
            comment=_character(options.get("comment", "")),
            trims=(options.get(TRIMS[0], "false").lower() == "true", options.get(TRIMS[1], "false").lower() == "true"),
        )

    @property
    def usual(self) -> bool:
        """Whether PyArrow's parser knows it."""
        return (
            len(self.separator) == 1 and len(self.quote) <= 1 and not (self.escape or self.comment or any(self.trims))
        )


def batches(opened: Opener, convention: Convention) -> Iterator[tuple[list[str] | None, Any]]:
    """The rows as tables of texts named `0`, `1` …, each with the file's header; None where files have none.

    Raises:
        ValueError: bytes that are no text, rows of different lengths, quotes that do not end.
    """
    if convention.encoding in MARKS:
        with opened() as content:
            head = content.read(4)
        if head and not head.startswith(MARKS[convention.encoding]):
            raise ValueError("no byte order mark")
    opened, convention = _rows_alone(opened, convention)
    made = _by_arrow(opened, convention) if convention.usual else _by_hand(opened, convention)
    for header, table in made:
        yield header, _without(table, convention.nulls)


def _rows_alone(opened: Opener, convention: Convention) -> tuple[Opener, Convention]:
    """The file without lines that are no rows, and Excel's first line `sep=;` as what it says."""
    encoding = "utf-8-sig" if convention.encoding == "utf-8" else convention.encoding
    with _lines(opened, encoding, "replace") as lines:
        first = next(lines, "").lstrip("\ufeff")
    word = first.rstrip("\r\n,;\t" if first.startswith('"') else "\r\n").strip('"')
    names_separator = word.rstrip(",;\t")[:4] == "sep=" and len(word) >= 5 and word[5:].strip(",;\t") == ""
    if not (names_separator or convention.skip or convention.footer):
        return opened, convention
    skip = convention.skip + names_separator
    with _lines(opened, encoding) as lines:
        count = sum(1 for _ in lines)
    if count < skip + convention.footer:
        raise ValueError("fewer lines than are left out")

    @contextmanager
    def rows() -> Iterator[IO[bytes]]:
        with _lines(opened, encoding) as lines:
            yield cast("IO[bytes]", _Encoded(islice(lines, skip, count - convention.footer)))

    return rows, replace(convention, encoding="utf-8", separator=word[4] if names_separator else convention.separator)


@contextmanager
def _lines(opened: Opener, encoding: str, errors: str = "strict") -> Iterator[Iterator[str]]:
    with opened() as content:
        text = io.TextIOWrapper(content, encoding, errors, newline="")
        try:
            yield iter(text)
        finally:
            text.detach()


class _Encoded(io.RawIOBase):
    """Lines of text as bytes."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        for line in self._lines if size < 0 or len(self._rest) < size else ():
            self._rest += line.encode()
            if 0 <= size <= len(self._rest):
                break
        found, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return found


def _by_arrow(opened: Opener, convention: Convention) -> Iterator[tuple[list[str] | None, Any]]:
    block, done = BLOCK, 0
    while True:
        skip = done
        try:
            for header, table in _streamed(opened, convention, block):
                fresh = table.slice(min(skip, table.num_rows))
                skip -= min(skip, table.num_rows)
                done += fresh.num_rows
                yield header, fresh
        except pa.ArrowInvalid as error:
            if STRADDLES not in str(error) or block >= MOST_BLOCK:
                raise
            block *= 8  # one row is greater than a block: once more, from the first row that was not told
        else:
            return


def _streamed(opened: Opener, convention: Convention, block: int) -> Iterator[tuple[list[str] | None, Any]]:
    names = _names(opened, convention, block)
    if names is None:
        return
    with opened() as content:
        counted = _Quotes(content, convention.quote.encode() or b'"')
        reader = _reader(counted, convention, block, dict.fromkeys(names, pa.string()))
        header = list(names) if convention.header else None
        for batch in reader:
            found = pa.Table.from_batches([batch])
            yield header, found.rename_columns([str(number) for number in range(found.num_columns)])
    if convention.quote and counted.count % 2:
        # PyArrow takes the end of the file for the end of a value in quotes.
        for _ in _by_hand(opened, convention):
            pass


class _Quotes(io.RawIOBase):
    """Counts the quotes of what is read through it."""

    def __init__(self, content: IO[bytes], quote: bytes) -> None:
        self._content = content
        self._quote = quote
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        found = self._content.read(size)
        self.count += found.count(self._quote)
        return found


def _names(opened: Opener, convention: Convention, block: int) -> list[str] | None:
    """The header, or names of our own; None for a file without a byte."""
    with opened() as content:
        try:
            names: list[str] = _reader(content, convention, block, {}).schema.names
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return None
            raise
        return names


def _reader(content: IO[bytes] | io.RawIOBase, convention: Convention, block: int, types: Mapping[str, Any]) -> Any:
    return csv.open_csv(
        content,
        read_options=csv.ReadOptions(
            block_size=block,
            encoding=convention.encoding,
            autogenerate_column_names=not convention.header,
            use_threads=False,
        ),
        parse_options=csv.ParseOptions(
            delimiter=convention.separator,
            quote_char=convention.quote or False,
            double_quote=True,
            escape_char=False,
            newlines_in_values=True,
        ),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _by_hand(opened: Opener, convention: Convention) -> Iterator[tuple[list[str] | None, Any]]:
    with opened() as content:
        text = codecs.getreader(convention.encoding)(content, "strict")
        records = _records(_characters(text), convention)
        header = None
        if convention.header:
            first = next(records, None)
            if first is None:
                return
            header = [value or "" for value in first]
        width = None if header is None else len(header)
        yield header, _table([], width or 0)
        while rows := list(islice(records, ROWS)):
            width = len(rows[0]) if width is None else width
            if any(len(row) != width for row in rows):
                raise ValueError("a row with too few or too many values")
            yield header, _table(rows, width)


def _table(rows: list[list[str | None]], width: int) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * width
    return pa.table({str(number): pa.array(column, pa.string()) for number, column in enumerate(columns)})


def _characters(text: Any) -> Iterator[str]:
    first = True
    while piece := text.read(BLOCK):
        yield from piece.removeprefix("\ufeff") if first else piece
        first = False


def _records(characters: Iterator[str], convention: Convention) -> Iterator[list[str | None]]:
    """One list of values a row; None for nothing between two separators."""
    line = _Line(convention)
    for character in characters:
        if (done := line.take(character)) is not None:
            yield done
    if (done := line.end()) is not None:
        yield done


class _Line:
    """The row that is being read, character by character."""

    def __init__(self, convention: Convention) -> None:
        self._by = convention
        self._values: list[str | None] = []
        self._value: list[str] = []
        self._inside = self._was_quoted = self._escaped = self._closing = self._comment = self._return = False
        self._blank = False
        self._solid = 0

    def take(self, character: str) -> list[str | None] | None:
        """One more character; the row if it ends it."""
        after_return, self._return = self._return, False
        if after_return and character == "\n":
            return None
        if self._comment:
            self._comment = character not in "\r\n"
            self._return = character == "\r"
            return None
        if self._escaped:
            self._escaped = False
            # Before anything else it is a character like others.
            special = character in (self._by.quote, self._by.escape)
            self._value.append(character if special else self._by.escape + character)
        elif self._inside and not self._closing:
            self._quoted(character)
        elif self._closing and character == self._by.quote and not (self._by.escape or self._blank):
            self._closing = False
            self._value.append(character)
        else:
            if self._closing and self._trimmed(character, 1):
                self._blank = True
                return None
            self._inside = self._closing = self._blank = False
            return self._plain(character)
        return None

    def end(self) -> list[str | None] | None:
        """The last row, if it has no line end of its own."""
        if self._inside and not self._closing:
            raise ValueError("an unclosed quote")
        return self._row()

    def _quoted(self, character: str) -> None:
        if character == self._by.escape:
            self._escaped = True
        elif character == self._by.quote:
            self._closing, self._solid = True, len(self._value)
        else:
            self._value.append(character)

    def _plain(self, character: str) -> list[str | None] | None:
        begins = not self._value and not self._was_quoted
        if begins and self._trimmed(character, 0):
            return None
        if self._was_quoted and not self._value_ends(character):
            raise ValueError("text between a closing quote and the separator")
        if begins and character == self._by.quote:
            self._inside = self._was_quoted = True
        elif begins and not self._values and character == self._by.comment:
            self._comment = True
        elif character in "\r\n":
            self._return = character == "\r"
            return self._row()
        else:
            self._value.append(character)
            self._separate()
        return None

    def _separate(self) -> None:
        separator = self._by.separator
        ends = self._value[-1] == separator[-1] and len(self._value) - len(separator) >= self._solid
        if ends and "".join(self._value[-len(separator) :]) == separator:
            del self._value[-len(separator) :]
            self._values.append(self._ended())

    def _value_ends(self, character: str) -> bool:
        return character in "\r\n" or character in self._by.separator

    def _trimmed(self, character: str, side: int) -> bool:
        """Whether the character is a blank that is left out."""
        blank = character <= " " and character not in "\r\n" and character not in self._by.separator
        return blank and self._by.trims[side]

    def _ended(self) -> str | None:
        text, quoted = "".join(self._value), self._was_quoted
        self._value, self._was_quoted, self._solid = [], False, 0
        if text and self._by.trims[1] and not quoted:
            return text.rstrip(BLANKS)
        return text if text or quoted else None

    def _row(self) -> list[str | None] | None:
        if not self._values and not self._value and not self._was_quoted:
            return None  # a line without anything is no row
        self._values.append(self._ended())
        done, self._values = self._values, []
        return done


def _without(table: Any, nulls: tuple[str, ...]) -> Any:
    if not nulls:
        return table
    known, none = pa.array(nulls, pa.string()), pa.scalar(None, pa.string())
    columns = [pc.if_else(pc.is_in(column, known), none, column) for column in table.columns]
    return pa.table(columns, names=table.column_names) if columns else table


def _nulls(options: Mapping[str, str], name: str) -> list[str]:
    return several(options[name]) if name == "null_values" else [options[name]]


def _character(text: str) -> str:
    """A character that can be written with a backslash before it."""
    return text[1:] if len(text) == 2 and text[0] == "\\" else text


def _encoding(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except LookupError as error:
        raise ConfigError(
            f"options: encoding {name!r} is not known", hint="Use one such as utf-8, latin1 or utf-16."
        ) from error
    return "utf-8" if known in ("utf-8", "utf-8-sig") else known
