"""Validates the options of text files, and splits them into Spark options, value rules and the CSV dialect.

The default is what Python's csv module, PostgreSQL's COPY and Excel write (RFC 4180); every other convention is an
option. An option is accepted only if all readers support it.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from tidegate.dialects.spark.exact_text import FALSE, TRUE, TextRules
from tidegate.errors import ConfigError

UNICODE = {"utf-8": "UTF-8", "utf-16": "UTF-16", "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"} | {
    "utf-32": "UTF-32",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
}
"""Python's names of the encodings that Spark decodes, and Spark's."""
VALUES = ("round", "dateformat", "timestampformat", "timestampntzformat", "timezone")
LINES = ("skip_rows", "skip_footer")
WORDS = ("null_values", "true_values", "false_values")
CSV, JSON = "csv", "json"
KNOWN: Mapping[str, frozenset[str]] = {
    CSV: frozenset(
        {"sep", "delimiter", "quote", "escape", "encoding", "charset", "header", "comment", "nullvalue", "multiline"}
        | {"ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcolumns", "maxcharspercolumn"}
        | {"decimal", "thousands", *VALUES, *LINES, *WORDS}
    ),
    JSON: frozenset({"multiline", "encoding", "charset", *VALUES}),
}
ROUND = "round"
OFFSET = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d")
ABSENT = "\uffff"
"""What stands for a value that is not there: no text has this character, which Unicode excludes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How rows of CSV are written.

    Args:
        separator: one character or several.
        quote: one character; empty where no value is in quotes.
        escape: what stands before a quote inside of quotes: the quote itself, or another character.
        encoding: as Python calls it.
        nulls: the texts that are NULL, quoted or not.
        header: the first row holds the names.
        comment: the first character of lines that are left out.
        multiline: a value may hold line breaks; None where the file itself tells.
        trims: whether spaces before and after a value are left out.
        above, below: lines before the first row, or the header, and after the last row, that are no rows.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    encoding: str = "utf-8"
    nulls: tuple[str, ...] = ()
    header: bool = True
    comment: str = ""
    multiline: bool | None = None
    trims: tuple[bool, bool] = (False, False)
    above: int = 0
    below: int = 0

    @property
    def of_python(self) -> dict[str, Any]:
        """What `csv.reader` calls it."""
        doubled = self.escape in ("", self.quote)
        return {
            "delimiter": self.separator,
            "quotechar": self.quote or None,
            "quoting": csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            "doublequote": doubled,
            "escapechar": None if doubled else self.escape,
        }

    @property
    def bytewise(self) -> bool:
        """Whether a byte below 128 is that character wherever it stands."""
        return not self.encoding.startswith(("utf-16", "utf-32"))


def checked(form: str, options: Mapping[str, str]) -> None:
    """Raises ConfigError for options that this format does not have."""
    if form not in KNOWN:
        if unknown := [name for name in options if name.lower() in KNOWN[CSV] - {ROUND}]:
            raise ConfigError(f"options: {unknown[0]} does not apply to {form}", hint="Remove it.")
        return
    for name, value in options.items():
        if value.startswith("[") and name.lower() not in WORDS and _list(value) is not None:
            raise ConfigError(f"options: {name} takes one value, not a list")
        if name.lower() not in KNOWN[form]:
            raise ConfigError(
                f"options: {name} is not an option of {form}", hint=f"Known options: {', '.join(sorted(KNOWN[form]))}."
            )
    rules_of(form, options)
    csv_of(options)
    if form == JSON and csv_of(options).encoding != "utf-8":
        raise ConfigError("options: encoding: JSON must be UTF-8", hint="Convert the files: `iconv -t UTF-8`.")


def texts_of(options: Mapping[str, str | int | float | bool | list[str]]) -> dict[str, str]:
    """As Spark takes them: texts, and the words of booleans in small letters; lists as JSON."""
    return {
        name: str(value).lower()
        if isinstance(value, bool)
        else json.dumps(value, ensure_ascii=False)
        if isinstance(value, list)
        else str(value)
        for name, value in options.items()
    }


def rules_of(form: str, options: Mapping[str, str]) -> TextRules:
    """How values are written. Raises ConfigError."""
    given = {name.lower(): value for name, value in options.items()}
    decimal, thousands = given.get("decimal", "."), given.get("thousands", "")
    if len(decimal) != 1 or len(thousands) > 1 or decimal == thousands or (decimal + thousands).isalnum():
        raise ConfigError("options: decimal and thousands must be one character each, and different")
    zone = given.get("timezone", "UTC")
    if not (OFFSET.fullmatch(zone) or zone in ("Z", "UTC") or zone in _zones()):
        raise ConfigError(
            f"options: timeZone {zone!r} is not a time zone", hint="Use `Europe/Berlin`, `+02:00` or `UTC`."
        )
    true, false = (_words(given, name) or words for name, words in (("true_values", TRUE), ("false_values", FALSE)))
    true, false = (tuple(word.lower() for word in words) for words in (true, false))
    if both := sorted({*true} & {*false}):
        raise ConfigError(f"options: {both[0]!r} is one of both `true_values` and `false_values`")
    return TextRules(
        true=true,
        false=false,
        decimal=decimal,
        thousands=thousands,
        rounds=_flag(ROUND, given.get(ROUND, "false")),
        date_format=given.get("dateformat"),
        timestamp_format=given.get("timestampformat"),
        timestamp_ntz_format=given.get("timestampntzformat"),
        zone=zone,
        base64=form == JSON,
    )


def csv_of(options: Mapping[str, str]) -> CsvDialect:
    """How rows are written. Raises ConfigError."""
    given = {name.lower(): value for name, value in options.items()}
    quote = _character("quote", given.get("quote", '"'))
    separator = (given.get("sep") or given.get("delimiter") or ",").replace("\\t", "\t")
    return CsvDialect(
        separator=separator,
        quote=quote,
        escape=_character("escape", given.get("escape", quote)),
        encoding=_encoding(given.get("encoding") or given.get("charset") or "utf-8"),
        nulls=(*((given["nullvalue"],) if "nullvalue" in given else ()), *_words(given, "null_values")),
        header=_flag("header", given.get("header", "true")),
        comment=_character("comment", given.get("comment", "")),
        multiline=_flag("multiLine", given["multiline"]) if "multiline" in given else None,
        trims=(
            _flag("ignoreLeadingWhiteSpace", given.get("ignoreleadingwhitespace", "false")),
            _flag("ignoreTrailingWhiteSpace", given.get("ignoretrailingwhitespace", "false")),
        ),
        above=_count("skip_rows", given.get("skip_rows", "0")),
        below=_count("skip_footer", given.get("skip_footer", "0")),
    )


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"options: {name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _count(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"options: {name} must be a number of lines, not {text!r}")
    return int(text)


def _words(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = given.get(name)
    if text is None:
        return ()
    listed = _list(text)
    return (text,) if listed is None else tuple(listed)


def _list(text: str) -> list[str] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def _character(name: str, text: str) -> str:
    text = text.removeprefix("\\") if len(text) == 2 else text
    if len(text) > 1 or text in ("\n", "\r", "\0"):
        raise ConfigError(f"options: {name} must be one character, or empty")
    return text


def _encoding(text: str) -> str:
    try:
        name = codecs.lookup(text).name
        plain = name in UNICODE or 'a,"\r\n;'.encode(name) == b'a,"\r\n;'
    except (LookupError, UnicodeError):
        name, plain = text, False
    name = "utf-8" if name == "utf-8-sig" else name
    if not plain:
        raise ConfigError(
            f"options: encoding {text!r} is not known",
            hint="Use UTF-8, UTF-16, UTF-32, windows-1252, Shift_JIS or another one that begins with ASCII.",
        )
    return name


def single_byte(name: str) -> bool:
    """Whether every byte of an encoding is one character, the first 128 those of ASCII."""
    try:
        first = bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii")
        return first and len(bytes(range(256)).decode(name, "replace")) == 256
    except UnicodeError:
        return False


def decoding(name: str) -> tuple[str, str, str]:
    """What Spark decodes as, and the characters that stand for others then, and those others.

    Spark decodes few encodings; the others of one byte a character it reads as ISO-8859-1.
    """
    if name in UNICODE:
        return UNICODE[name], "", ""
    pairs = [(chr(byte), bytes([byte]).decode(name, "replace")) for byte in range(128, 256)]
    moved = [(was, now) for was, now in pairs if was != now]
    return "ISO-8859-1", "".join(was for was, _ in moved), "".join(now for _, now in moved)
