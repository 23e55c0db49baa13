"""Finds the line of a file that a load refused, for the error message.

Called after a load has failed; it never changes the verdict. Never shows a value.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import IO

from tidegate.core.schema import Schema
from tidegate.errors import FileUnreadable
from tidegate.sources.shared.files.csv_scan import bare, records
from tidegate.sources.shared.files.options import CsvDialect, csv_of, rules_of
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import FileFormat, unpacked
from tidegate.sources.shared.files.values import document, fits, infers, shows

BLANKS = "".join(map(chr, range(33)))
"""What Spark takes for blanks around a value."""


def located(error: FileUnreadable, reader: Reader, path: str, schema: Schema) -> FileUnreadable:
    """The error with the line, the column and the reason, where reading the file finds them."""
    try:
        with reader.store.open(path) as content:
            found = next(_faults(unpacked(content, path), reader, schema), None)
    except (OSError, EOFError, ValueError, LookupError, FileUnreadable):
        return error  # it cannot be read here either; Spark's own reason stands
    if found is None:
        return error
    line, column, reason = found
    context = {**error.context, "file": path, "line": line, **({"column": column} if column else {})}
    return FileUnreadable(f"{path}, line {line}{reason}", hint=error.hint, **context)


def _faults(content: IO[bytes], reader: Reader, schema: Schema) -> Iterator[tuple[int, str, str]]:
    if reader.form is FileFormat.CSV:
        return _of_csv(content, reader, schema)
    return _of_json(content, reader, schema) if reader.form is FileFormat.JSON else iter(())


def _of_csv(content: IO[bytes], reader: Reader, schema: Schema) -> Iterator[tuple[int, str, str]]:
    with bare(content, "", csv_of(reader.options)) as (text, dialect):
        yield from _of_rows(text, dialect, reader, schema)


def _of_rows(content: IO[bytes], dialect: CsvDialect, reader: Reader, schema: Schema) -> Iterator[tuple[int, str, str]]:
    outside = {reader.carrier, *reader.partitions}
    names = [name for name in schema.names if name not in outside]
    headed = dialect.header
    for line, row in records(content, dialect):
        if not row:
            continue
        if headed:
            names, headed = [name or f"_c{number}" for number, name in enumerate(row)], False
            continue
        if len(row) != len(names):
            yield line, "", f", has {len(row)} values, but there are {len(names)} columns"
            continue
        for name, text in zip(names, row, strict=True):
            trimmed = text.lstrip(BLANKS) if dialect.trims[0] else text
            trimmed = trimmed.rstrip(BLANKS) if dialect.trims[1] else trimmed
            if trimmed not in ("", *dialect.nulls) and _unfit(name, trimmed, reader, schema):
                yield line, name, _value(name, reader, schema)


def _of_json(content: IO[bytes], reader: Reader, schema: Schema) -> Iterator[tuple[int, str, str]]:
    text = io.TextIOWrapper(content, "utf-8-sig")
    try:
        yield from _of_lines(text, reader, schema)
    finally:
        text.detach()


def _of_lines(text: Iterable[str], reader: Reader, schema: Schema) -> Iterator[tuple[int, str, str]]:
    rules = rules_of(reader.form, reader.options)
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            found = document(line)
        except ValueError as error:
            if number == 1 and line.lstrip().startswith("["):
                return  # one array, whose lines mean nothing
            reason = str(error).partition(":")[0]
            yield number, "", f", is not one JSON object: {reason}"
            continue
        for name, value in found.items():
            column = schema.find(name)
            if column is None or value is None:
                continue
            unlike = reader.infers(column) and not infers(value, column.type)
            if unlike or (isinstance(value, str) and fits(value, column.type, rules) is False):
                yield number, name, _value(name, reader, schema)


def _unfit(name: str, text: str, reader: Reader, schema: Schema) -> bool:
    column = schema.find(name)
    if column is None:
        return False
    tells = shows if reader.infers(column) else fits
    return tells(text, column.type, rules_of(reader.form, reader.options)) is False


def _value(name: str, reader: Reader, schema: Schema) -> str:
    column = schema.find(name)
    kind = column.type if column is not None else ""
    if column is not None and reader.infers(column):
        return f": the value of column {name!r} is not written as a {kind}, and that type was inferred from others"
    return f": the value of column {name!r} is not exactly a {kind}"
