"""Validates the options of text files, and splits them into Spark options, value rules and the CSV dialect.

The default is what Python's csv module, PostgreSQL's COPY and Excel write (RFC 4180); every other convention is an
option. An option is accepted only if all readers support it.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from tidegate.dialects.spark.exact_text import TextRules
from tidegate.errors import ConfigError

UNICODE = {"utf-8": "UTF-8", "utf-16": "UTF-16", "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"} | {
    "utf-32": "UTF-32",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
}
"""Python's names of the encodings that Spark decodes, and Spark's."""
VALUES = ("round", "dateformat", "timestampformat", "timestampntzformat", "timezone")
CSV, JSON = "csv", "json"
KNOWN: Mapping[str, frozenset[str]] = {
    CSV: frozenset(
        {"sep", "delimiter", "quote", "escape", "encoding", "charset", "header", "comment", "nullvalue", "multiline"}
        | {"ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcolumns", "maxcharspercolumn"}
        | {"decimal", "thousands", *VALUES}
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
        null: a text that is NULL, quoted or not; None for none.
        header: the first row holds the names.
        comment: the first character of lines that are left out.
        multiline: a value may hold line breaks; None where the file itself tells.
        trims: whether spaces before and after a value are left out.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    encoding: str = "utf-8"
    null: str | None = None
    header: bool = True
    comment: str = ""
    multiline: bool | None = None
    trims: tuple[bool, bool] = (False, False)

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
    for name in options:
        if name.lower() not in KNOWN[form]:
            raise ConfigError(
                f"options: {name} is not an option of {form}", hint=f"Known options: {', '.join(sorted(KNOWN[form]))}."
            )
    rules_of(form, options)
    csv_of(options)
    if form == JSON and csv_of(options).encoding != "utf-8":
        raise ConfigError("options: encoding: JSON must be UTF-8", hint="Convert the files: `iconv -t UTF-8`.")


def texts_of(options: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """As Spark takes them: texts, and the words of booleans in small letters."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


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
    return TextRules(
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
        null=given.get("nullvalue"),
        header=_flag("header", given.get("header", "true")),
        comment=_character("comment", given.get("comment", "")),
        multiline=_flag("multiLine", given["multiline"]) if "multiline" in given else None,
        trims=(
            _flag("ignoreLeadingWhiteSpace", given.get("ignoreleadingwhitespace", "false")),
            _flag("ignoreTrailingWhiteSpace", given.get("ignoretrailingwhitespace", "false")),
        ),
    )


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"options: {name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _character(name: str, text: str) -> str:
    text = text.removeprefix("\\") if len(text) == 2 else text
    if len(text) > 1 or text in ("\n", "\r", "\0"):
        raise ConfigError(f"options: {name} must be one character, or empty")
    return text


def _encoding(text: str) -> str:
    name = text
    try:
        name = codecs.lookup(text).name
        ascii_first = bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii")
        single = ascii_first and len(bytes(range(256)).decode(name, "replace")) == 256
    except (LookupError, UnicodeError):
        single = False
    name = "utf-8" if name == "utf-8-sig" else name
    if name not in UNICODE and not single:
        raise ConfigError(
            f"options: encoding {text!r} is not known",
            hint="Use UTF-8, UTF-16, UTF-32 or a single-byte encoding such as windows-1252.",
        )
    return name


def decoding(name: str) -> tuple[str, str, str]:
    """What Spark decodes as, and the characters that stand for others then, and those others.

    Spark decodes few encodings; the others of one byte a character it reads as ISO-8859-1.
    """
    if name in UNICODE:
        return UNICODE[name], "", ""
    pairs = [(chr(byte), bytes([byte]).decode(name, "replace")) for byte in range(128, 256)]
    moved = [(was, now) for was, now in pairs if was != now]
    return "ISO-8859-1", "".join(was for was, _ in moved), "".join(now for _, now in moved)
