"""Parses the JSON of an answer by the rules of JSON files: every digit is kept, and no object has a name twice."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from email.message import Message
from typing import Any

from tidegate.sources._api.rows import Number
from tidegate.sources.shared.deep import deep

LINES = frozenset(
    f"application/{kind}" for kind in ("x-ndjson", "ndjson", "jsonl", "x-jsonl", "jsonlines", "x-jsonlines")
)
"""Media types of answers that have a document a line."""


class NoDocument(ValueError):
    """An answer is no JSON; the message says what it is, and nothing of what it holds."""


def parsed(content: bytes, headers: Mapping[str, str]) -> Any:
    """The document of an answer; the list of them where each line is one.

    Args:
        content: as it was sent.

    Raises:
        NoDocument: it is none.
        EOFError: it is compressed, and cut short.
    """
    kind = Message()
    kind["Content-Type"] = headers.get("Content-Type", "")
    packed = headers.get("Content-Encoding", "identity").strip().lower()
    text = _text(_unpacked(content, packed), kind.get_param("charset"))
    if kind.get_content_type() not in LINES:
        return _document(text)
    # Lines that are cut between two of them look complete.
    if packed == "identity" and not ("Content-Length" in headers or "Transfer-Encoding" in headers):
        raise NoDocument("with lines, and neither `Content-Length` nor chunks tell whether these are all of them")
    return [_document(line) for line in text.split("\n") if line.strip()]


def _unpacked(content: bytes, encoding: str) -> bytes:
    if encoding == "identity":
        return content
    if encoding not in ("gzip", "x-gzip"):
        raise NoDocument(f"in the encoding {encoding}, where gzip or none was asked for")
    try:
        return gzip.decompress(content)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise NoDocument("with something that is not gzip, as its Content-Encoding says") from error


def _text(content: bytes, charset: object) -> str:
    """JSON is UTF-8 whatever is said about it (RFC 8259); only what cannot be has the encoding that is stated."""
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if not isinstance(charset, str):
            raise NoDocument("with bytes that are not text in UTF-8, and its Content-Type names no charset") from error
    try:
        return content.decode(charset)
    except (ValueError, LookupError) as error:
        raise NoDocument("with bytes that are text neither in UTF-8 nor in the charset of its Content-Type") from error


def _document(text: str) -> Any:
    try:
        return deep(lambda: json.loads(text, parse_float=Number, parse_constant=_never, object_pairs_hook=_once))
    except NoDocument:
        raise
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text[error.pos] in "{[":
            raise NoDocument(
                "with several JSON documents; of lines, its Content-Type has to be application/x-ndjson"
            ) from error
        raise NoDocument("with something that is not JSON") from error
    except (ValueError, ArithmeticError) as error:
        raise NoDocument("with JSON that is nested too deeply, or has a number that is too long") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NoDocument("with an object that has the same name twice")
    return found


def _never(_word: str) -> None:
    raise NoDocument("with NaN or Infinity, which is not JSON")
