"""Scans a CSV file before Spark reads it, for errors that Spark would silently accept.

These are unclosed quotes, text after a closing quote, bytes that are not in the encoding, mixed line endings, and empty
lines in a file with a single column. The file is read in pieces and its bytes are only counted and searched, which
takes a small part of the time that parsing does.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

from tidegate.errors import FileUnreadable
from tidegate.sources.shared.files.options import UNICODE, CsvDialect, single_byte

PIECE = 1 << 20
TAIL = 256
"""Bytes of one piece that are looked at with the next one."""
# What Java's `trim` leaves nothing of: such a line is dropped where Spark reads line by line.
BLANKS = re.compile(rb"[\r\n][\x00-\x09\x0b\x0c\x0e-\x20]+(?=[\r\n])")
BLANK = rb"\x00-\x20"
EMPTY = re.compile(rb"(?:\r\n|\n|\r(?!\n))[\r\n]")
# Without one Java and Python differ about the order of bytes.
MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
ENDS = (("\r\n", rb"\r\n"), ("\n", rb"(?<!\r)\n"), ("\r", rb"\r(?!\n)"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How the rows of a file are told apart.

    Args:
        end: what ends a row.
        broken: a row can be several lines, because a value holds a line break or a line holds nothing but blanks.
        bare: Spark reads a copy, because it knows neither lines that are no rows nor the encoding, see `bare`; or holds
            all of a large array, see `json_scan`.
        separator: the one that a copied file itself tells.
    """

    end: str = "\n"
    broken: bool = False
    bare: bool = False
    separator: str = ""


SEPARATOR = re.compile(r'("?)sep=([^"\r\n])\1[,;\t]*(?:\r\n|\n|\r|$)')
"""The first line by which Excel is told the separator."""


@contextmanager
def bare(content: IO[bytes], path: str, dialect: CsvDialect) -> Iterator[tuple[IO[bytes], CsvDialect]]:
    """An unpacked file without the lines that are no rows, and how its rows are written; `above` lines are left out.

    What Spark cannot leave out or decode is written to a temporary file, in UTF-8.

    Raises:
        FileUnreadable: it has fewer lines than are to be left out, or bytes that are not in the encoding.
    """
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    head = content.read(TAIL)
    content.seek(0)
    named = SEPARATOR.match(codecs.getincrementaldecoder(encoding)("replace").decode(head))
    odd = dialect.encoding not in UNICODE and not single_byte(dialect.encoding)
    if not head or not (named or odd or dialect.above or dialect.below):
        yield content, dialect
        return
    if not head.startswith(MARKS.get(dialect.encoding, (b"",))):
        raise _unmarked(path, dialect)
    above = dialect.above + (named is not None)
    with tempfile.TemporaryFile() as made:
        _write_rows(content, made, path, replace(dialect, encoding=encoding, above=above))
        made.seek(0)
        separator = named[2] if named else dialect.separator
        yield made, replace(dialect, encoding="utf-8", separator=separator, above=above, below=0)


def _write_rows(content: IO[bytes], made: IO[bytes], path: str, dialect: CsvDialect) -> None:
    lines = io.TextIOWrapper(content, dialect.encoding, newline="")
    last: deque[str] = deque()
    seen = 0
    try:
        for line in lines:
            seen += 1
            if seen <= dialect.above:
                continue
            last.append(line.lstrip("\ufeff") if seen == 1 else line)
            if len(last) > dialect.below:
                made.write(last.popleft().encode())
    except UnicodeDecodeError as error:
        number = seen + 1 + error.object[: error.start].count(b"\n")
        raise _not_text(path, number, f"a byte that is not {dialect.encoding}") from error
    finally:
        lines.detach()
    if seen < dialect.above + dialect.below:
        raise FileUnreadable(
            f"{path} has fewer lines than `skip_rows` and `skip_footer` leave out", hint="Correct them.", file=path
        )


def rows_of(content: IO[bytes], path: str, dialect: CsvDialect, columns: int) -> Rows:
    """How the rows of an unpacked file are told apart; reads all of it.

    Args:
        columns: of its first row.

    Raises:
        FileUnreadable: it is not well-formed in this dialect; the message names the line.
    """
    seen = _Seen(dialect)
    for piece in _pieces(content, path, dialect):
        seen.take(piece)
    if seen.inside or seen.strange or dialect.comment:  # a comment may hold anything
        _parsed_strictly(content, path, dialect, seen)
    if columns == 1 and seen.empty:
        raise FileUnreadable(
            f"{path} has one column and an empty line, which can be NULL or no row at all",
            hint='Write an empty string as "", and delete the other empty lines.',
            file=path,
        )
    if seen.broken and dialect.multiline is False:
        raise FileUnreadable(
            f"a value in {path} contains a line break", hint="Remove `options: {multiLine: false}`.", file=path
        )
    broken = seen.broken or seen.blank or dialect.multiline is True or not dialect.bytewise or bool(dialect.comment)
    if broken and len(seen.ends) > 1:
        names = " and ".join(sorted(repr(end) for end in seen.ends))
        raise FileUnreadable(
            f"the rows of {path} have different line endings, from line {_other_end(content, dialect)} on: by {names}",
            hint="Use the same line endings everywhere, for example with `dos2unix`.",
            file=path,
        )
    return Rows(end=next(iter(seen.ends), "\n"), broken=broken)


class _Seen:
    """What was found in the pieces of a file."""

    def __init__(self, dialect: CsvDialect) -> None:
        self.ends: set[str] = set()
        self.inside = self.broken = self.strange = self.empty = self.blank = False
        self._quote = dialect.quote.encode()
        escape = dialect.escape.encode()
        self._escaped = (
            re.compile(re.escape(escape) + b"[" + re.escape(escape + self._quote) + b"]")
            if escape not in (b"", self._quote)
            else None
        )
        self._tail = dialect.separator[-1].encode()
        if dialect.quote:
            first, last = dialect.separator[0].encode(), dialect.separator[-1].encode()
            quote, blank = re.escape(self._quote), BLANK if any(dialect.trims) else b""
            before, after = (b"[" + re.escape(each + b"\r\n") + blank + quote + b"]" for each in (last, first))
            self._misplaced = re.compile(b"(?<!" + before + b")" + quote + b"|" + quote + b"(?!" + after + rb"|\Z)")

    def take(self, piece: bytes) -> None:
        """Looks at one more piece, which ends neither within a line end nor after an escape."""
        if self._escaped is not None:
            piece = self._escaped.sub(b"..", piece)
        outside = self._outside(piece) if self._quote else piece
        found = self._tail + outside
        self.ends |= {end for end, pattern in ENDS if end not in self.ends and re.search(pattern, outside)}
        self.empty = self.empty or EMPTY.search(found) is not None
        self.blank = self.blank or BLANKS.search(found) is not None
        if self._quote and not self.strange:
            self.strange = self._misplaced.search(found) is not None
        self._tail = found[-TAIL:]

    def _outside(self, piece: bytes) -> bytes:
        """What is outside of quotes, with one quote for all that is between two of them."""
        parts = piece.split(self._quote)
        first = int(self.inside)
        self.broken = self.broken or any(b"\n" in part or b"\r" in part for part in parts[1 - first :: 2])
        outside = self._quote.join(parts[first::2])
        joined = self._quote + outside if self.inside and len(parts) > 1 else outside
        self.inside = self.inside != (len(parts) % 2 == 0)
        return joined


def _pieces(content: IO[bytes], path: str, dialect: CsvDialect) -> Iterator[bytes]:
    """The file in pieces, those of other encodings as UTF-8, without the mark at its beginning."""
    content.seek(0)
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    whole = ("\r", dialect.escape) if dialect.escape != dialect.quote else ("\r",)
    ends = tuple(each.encode() for each in whole if each)
    lines, first = dialect.above, True
    while piece := content.read(PIECE if dialect.bytewise else -1):
        while dialect.bytewise and piece.endswith(ends) and (more := content.read(1)):
            piece += more
        if first and not piece.startswith(MARKS.get(dialect.encoding, (b"",))):
            raise _unmarked(path, dialect)
        try:
            text = decoder.decode(piece)
        except UnicodeDecodeError as error:
            line = lines + 1 + error.object[: error.start].count(b"\n")
            raise _not_text(path, line, f"a byte that is not {dialect.encoding}") from error
        if b"\0" in piece and dialect.bytewise:
            raise _not_text(path, lines + 1 + piece[: piece.index(b"\0")].count(b"\n"), "a zero byte")
        lines += piece.count(b"\n")
        piece = piece if dialect.bytewise else text.encode()
        yield piece.removeprefix(codecs.BOM_UTF8) if first else piece
        first = False
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_text(path, lines + 1, f"a byte that is not {dialect.encoding}") from error


def _unmarked(path: str, dialect: CsvDialect) -> FileUnreadable:
    return FileUnreadable(
        f"{path} does not begin with a byte order mark, which {dialect.encoding} needs",
        hint=f"Set the byte order: `options: {{encoding: {dialect.encoding.upper()}LE}}`.",
        file=path,
    )


def _not_text(path: str, line: int, what: str) -> FileUnreadable:
    return FileUnreadable(
        f"{path}, line {line}, holds {what}",
        hint="Is it CSV? Set its encoding: `options: {encoding: windows-1252}`.",
        file=path,
        line=line,
    )


def records(
    content: IO[bytes], dialect: CsvDialect, *, strict: bool = False, ends: set[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The records of an unpacked file by Python's own reader: the line in which each begins, and its values.

    Args:
        ends: gets what ends rows.
    """
    csv.field_size_limit(sys.maxsize)
    content.seek(0)
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    text = io.TextIOWrapper(content, encoding, newline="")
    lines = _Lines(text, dialect.comment, dialect.above)
    try:
        for row in csv.reader(lines, strict=strict, **dialect.of_python):
            yield lines.began, row
            if ends is not None and lines.end:
                ends.add(lines.end)
            lines.between = True
    except csv.Error as error:
        raise FileUnreadable(f"line {lines.began}: {error}", line=lines.began) from error
    finally:
        text.detach()


class _Lines:
    """The lines of a file but for comments, which only stand between two rows.

    Attributes:
        between: whether the next line begins a row.
        began: the number of the line in which the row begins.
        end: what ends the last line.
    """

    def __init__(self, text: Iterable[str], comment: str, above: int) -> None:
        self.between, self.began, self.end = True, above + 1, ""
        self._lines = enumerate(text, above + 1)
        self._comment = comment

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            if self.between:
                if self._comment and line.startswith(self._comment):
                    continue
                self.between, self.began = False, number
            self.end = line[len(line.rstrip("\r\n")) :]
            yield line


def _parsed_strictly(content: IO[bytes], path: str, dialect: CsvDialect, seen: _Seen) -> None:
    """Finds the row in which a quote stands where none may; a quote within a value without quotes is one character."""
    if len(dialect.separator) > 1:
        raise _quote_of(path, None)
    try:
        ends: set[str] = set()
        values = (value for _, row in records(content, dialect, strict=True, ends=ends) for value in row)
        seen.broken = sum("\n" in value or "\r" in value for value in values) > 0
        seen.ends = ends
    except FileUnreadable as error:
        raise _quote_of(path, error.context["line"]) from error


def _quote_of(path: str, line: int | None) -> FileUnreadable:
    where = f"{path}, line {line}," if line else path
    return FileUnreadable(
        f"{where} has an unclosed quote, or text between a closing quote and the separator",
        hint='Within quotes, a quote must be doubled (""); another escape is an option: `options: {escape: "\\\\"}`.',
        file=path,
        line=line,
    )


def _other_end(content: IO[bytes], dialect: CsvDialect) -> int:
    """The line that ends otherwise than the first one."""
    content.seek(0)
    text = content.read().decode(dialect.encoding, "replace")
    quote = re.escape(dialect.quote or "\0")
    line, first = dialect.above + 1, None
    for found in re.finditer(f"{quote}[^{quote}]*{quote}|\r\n|\n|\r", text):
        if found[0][0] in "\r\n":
            first = first or found[0]
            if found[0] != first:
                return line
            line += 1
        else:
            line += len(re.findall("\r\n|\n|\r", found[0]))
    return line
