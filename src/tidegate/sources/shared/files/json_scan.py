"""Writes the objects of one JSON array a line each, so that Spark does not hold a large file as one value.

The objects themselves are not looked at: Spark validates each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from tidegate.spark.file_failures import unfit

LARGE = 16 * 1024 * 1024
LARGE_PACKED = 1024 * 1024
"""Bytes from which on a file of one array is read object by object."""
PIECE = 1 << 20
MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"
# A quote alone begins a text that goes on in the next piece.
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)


def objects(content: IO[bytes], path: str, *, piece: int = PIECE) -> Iterator[bytes]:
    """The objects of an unpacked file with one array, each without a line break.

    Args:
        piece: bytes that are read at once.

    Raises:
        FileUnreadable: it is no array, or one of something else, or has no end.
    """
    text, at, last, depth = content.read(piece).removeprefix(MARK), 0, 0, 0
    first = True
    while True:
        for token in TOKEN.finditer(text, at):
            at = token.end()
            match token[0]:
                case b'"':
                    at = token.start()
                    break
                case b"{" | b"[" as opening:
                    depth += 1
                    if depth <= 2:
                        between = text[last : token.start()].strip(BLANK)
                        _expect(path, opening == (b"[" if depth == 1 else b"{"))
                        _expect(path, between == (b"" if first else b","))
                        first, last = depth == 1, at if depth == 1 else token.start()
                case b"}" | b"]" as closing:
                    depth -= 1
                    _expect(path, depth > 0 or closing == b"]")
                    if depth == 1:
                        yield text[last:at].replace(b"\n", b" ").replace(b"\r", b" ")
                        last = at
                    if depth == 0:
                        _expect(path, not text[last : at - 1].strip(BLANK) and not text[at:].strip(BLANK))
                        while more := content.read(piece):
                            _expect(path, not more.strip(BLANK))
                        return
                case string:
                    # Neither does JSON allow a text between objects, nor a line break within one.
                    _expect(path, depth > 1 and b"\n" not in string and b"\r" not in string)
        else:
            at = len(text)
        text, at, last = text[last:], at - last, 0
        more = content.read(max(piece, len(text)))
        _expect(path, bool(more))
        text += more


def _expect(path: str, found: bool) -> None:
    if not found:
        raise unfit(path, "", "it is not one complete JSON document")
