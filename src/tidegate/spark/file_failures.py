"""What Spark says of files that it cannot read, as errors of Tidegate.

Never repeats a text that may contain values of rows.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from tidegate.errors import FileUnreadable, SourceMoved, TidegateError

UNFIT = "tidegate file: "
"""What the reader of text files says before the JSON of a file, a column and why its value cannot be taken."""
# What Spark says of a file that it was given to read; its words about a row hold the row's values.
_FILE = re.compile(r"Encountered error while reading file (?P<uri>\S+?)\.?(?:\s|$)")
_ROW = re.compile(r"MALFORMED_RECORD_IN_PARSING|BadRecordException|Malformed (?:record|line)")
# Causes that speak of bytes, never of a row's values.
_REASON = re.compile(
    r"(?:EOFException|ZipException|DataFormatException|ParquetDecodingException|FileFormatException): "
    r"([A-Z](?:(?!file:|s3a?:)[^\n\"'])*)"
)
_HEADER = "CSV header does not conform to the schema"
_NANOSECONDS = "nanos > 999999999 or < 0"
_FILE_GONE = re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST|FAILED_READ_FILE\.PATH_NOT_FOUND")


def of_files(text: str) -> TidegateError | None:
    """The error of a file that could not be read, if that is why Spark failed.

    Args:
        text: see `failures.everything`.
    """
    if found := _structured_error(text):
        if "inferred" in found:
            return unlike(found["file"], found["column"], found["inferred"])
        return unfit(found["file"], found["column"], found["reason"], found.get("hint"))
    file = _FILE.search(text)
    if file or _ROW.search(text) or _NANOSECONDS in text:
        return _unreadable(unquote(file["uri"]).rpartition("/")[2] if file else "a file", text)
    return None


def unfit(file: str, column: str, reason: str, hint: str | None = None) -> FileUnreadable:
    """The error of a value, or of a whole document where no column is named, that cannot be taken."""
    if not column:
        return FileUnreadable(
            f"{file} contains a document that cannot be read: {reason}",
            hint="Write one JSON object per line, or one array of objects, then run again.",
            file=file,
        )
    return FileUnreadable(
        f"{file}: a value of column {column!r} is not exactly a {reason}",
        hint=hint
        or f"Correct the file, or declare its format: `source: {{columns: {{{column}: …}}, options: {{decimal: …, "
        "round: true, dateFormat: …}}`.",
        file=file,
        column=column,
    )


def unlike(file: str, column: str, kind: str) -> FileUnreadable:
    """The error of a value that its column's type would change, which nobody has stated."""
    return FileUnreadable(
        f"{file}: a value of column {column!r} is not written as a {kind}, and that type was inferred from others",
        hint=f"State the column's type: `source: {{columns: {{{column}: text}}}}` keeps every value as it is written, "
        "any other type reads it by the rules in docs/sources/files.md.",
        file=file,
        column=column,
    )


def _structured_error(text: str) -> dict[str, str] | None:
    for part in text.split(UNFIT)[1:]:
        try:
            found, _ = json.JSONDecoder().raw_decode(part)
        except ValueError:
            continue
        return {name: str(value) for name, value in found.items()}
    return None


def _unreadable(name: str, text: str) -> TidegateError:
    if _FILE_GONE.search(text):
        return SourceMoved(f"{name} was listed but no longer exists", hint="Run again.")
    if _ROW.search(text):
        return FileUnreadable(
            f"a row of {name} does not match its columns: too few or too many values, a value of the wrong type, or a "
            f"truncated row",
            hint="Correct or complete the file, or declare the types under `source: {columns: …}`, then run again.",
            file=name,
        )
    if _HEADER in text:
        return FileUnreadable(
            f"the header of {name} has other columns than the schema, or the same in another order",
            hint="Correct the file, or load it from a folder of its own with a `schema=` that has its columns.",
            file=name,
        )
    if _NANOSECONDS in text:
        return FileUnreadable(
            f"{name} has a timestamp within the last second before 1970, which Spark cannot read in ORC",
            hint="Write the file as Parquet, or leave the column out: `source: {exclude: […]}`.",
            file=name,
        )
    reason = _REASON.search(text)
    why = f": {reason[1].strip()}" if reason else ""
    return FileUnreadable(f"{name} is truncated, damaged or not of its format{why}", file=name)
