"""Reads files with Spark, and unites files of several shapes into one set of columns.

Spark never chooses the files, infers types while reading, or turns a value that it cannot parse into NULL.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMPTZ, Column, Kind, Schema, Type
from tidegate.dialects.spark import Spark, json_rows
from tidegate.dialects.spark.exact_text import TextRules, exact, inferred, kind_of
from tidegate.dialects.spark.json_text import nested
from tidegate.errors import ConfigError, SchemaRefused
from tidegate.sources.shared import hints
from tidegate.sources.shared.files.csv_scan import bare
from tidegate.sources.shared.files.json_scan import objects
from tidegate.sources.shared.files.options import ABSENT, ROUND, CsvDialect, csv_of, decoding, rules_of
from tidegate.sources.shared.files.shape import TYPED, FileFormat, Shape, unpacked
from tidegate.sources.shared.files.types import (
    GUESSED,
    UNQUOTED,
    Encoding,
    by_value,
    castable,
    exactly,
    guessed,
    of_spark,
)
from tidegate.spark.caching import uncached
from tidegate.spark.file_failures import UNFIT, unfit
from tidegate.storage import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every one an error rather than a NULL, a file that is left out, or a name that is looked for elsewhere.
STRICT = {
    "mode": "FAILFAST",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "enforceSchema": "true",
    "columnPruning": "false",
}
# The parser neither guesses where a quote ends that is not written twice, nor makes NULL of a text.
CSV = {"unescapedQuoteHandling": "RAISE_ERROR", "nullValue": ABSENT, "emptyValue": "", "multiLine": "false"}
OWN = frozenset(name.lower() for name in STRICT) | {
    "inferschema",
    "path",
    "basepath",
    "recursivefilelookup",
    "pathglobfilter",
    "modifiedbefore",
    "modifiedafter",
    "samplingratio",
    "columnnameofcorruptrecord",
}
"""Options of Spark's readers that this file decides."""
COPY = ".rows"
"""Ends the name of a copy, so that no other suffix does, by which Spark would unpack it."""
LIMITS = frozenset({"maxcolumns", "maxcharspercolumn"})
NO_CODE = "%(?![0-9A-Fa-f]{2})"
NOTHING = "__HIVE_DEFAULT_PARTITION__"
PATH = "_path"
NONE = "_none"
"""A column that no file has, where all that a file has are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How files of one source are read.

    Args:
        options: of Spark's reader, as the user states them.
        carrier: the column that gets each row's path; None for none.
        partitions: columns whose values stand in the folders' names, where a file has no column of that name.
        selection: the columns of which types are told.
        stated: the columns whose types somebody has stated; the others take only values of which their type would be
            inferred. None for all of them.
        copies: the folder for copies of files that Spark cannot read as they are, or holds as one value; None for none.
    """

    store: Store
    form: FileFormat
    options: Mapping[str, str]
    carrier: str | None = None
    partitions: tuple[str, ...] = ()
    selection: ColumnSelection = field(default_factory=ColumnSelection)
    stated: frozenset[str] | None = None
    copies: Callable[[], Path] | None = None

    def rows(self, session: SparkSession, shapes: Mapping[str, Shape], schema: Schema) -> DataFrame:
        """The rows of exactly these files, columns of `schema` in order with its stored types; NULL where one lacks it.

        Raises:
            SchemaRefused: a type that is stated would change values of a file's own.
        """
        read = self._documents if self.form is FileFormat.JSON else self._group
        frames = [read(session, shape, paths, schema) for shape, paths in _files_by_shape(shapes).items()]
        if not frames:
            ddl = ", ".join(f"{Spark().quote(column.name)} {column.type.spark}" for column in schema)
            return session.createDataFrame([], ddl)
        together = frames[0]
        for frame in frames[1:]:
            together = together.union(frame)
        return together

    def inferred_types(self, session: SparkSession, shapes: Mapping[str, Shape]) -> list[tuple[str, dict[str, Type]]]:
        """The types of files whose format has none, by their values: for each shape its first file, and its columns.

        Whole numbers are `bigint`, so that a file of small ones does not contradict one of great ones; what is nested
        is JSON.
        """
        guess = self._inferred_by_spark if self.form is FileFormat.JSON else self._inferred_from_texts
        return [(paths[0], guess(session, shape, paths)) for shape, paths in _files_by_shape(shapes).items()]

    def _inferred_by_spark(self, session: SparkSession, shape: Shape, paths: Sequence[str]) -> dict[str, Type]:
        copied = shape.rows.bare and self.copies is not None
        multiline = str(not copied and (shape.listed or self._whole)).lower()
        options = {**STRICT, "inferSchema": "true", "multiLine": multiline}
        uris = self.uris(paths, copied=copied)
        frame = uncached(session, uris).format("json").options(**options).load(uris)
        return {name: _wide(of_spark(kind) or Type(kind=Kind.JSON)) for name, kind in frame.dtypes}

    def _inferred_from_texts(self, session: SparkSession, shape: Shape, paths: Sequence[str]) -> dict[str, Type]:
        frame = self._frame(session, shape, paths)
        if shape.names:  # a header is a name as it stands there; Spark numbers names that differ only by case
            frame = frame.schema(", ".join(f"{Spark().quote(f'_c{n}')} string" for n, _ in enumerate(shape.names)))
        rows = frame.load(self.uris(paths, copied=shape.rows.bare))
        names = shape.names or tuple(rows.columns)
        taken = {n: name for n, name in enumerate(names) if self.selection.takes(name)}
        texts = rows.selectExpr(*(f"{self._text(Spark().quote(f'_c{n}'), shape)} AS t{n}" for n in taken))
        (found,) = texts.selectExpr(*(f"collect_set({kind_of(f't{n}', self.rules)}) AS k{n}" for n in taken)).collect()
        return dict(zip(taken.values(), map(guessed, found), strict=True))

    def _group(self, session: SparkSession, shape: Shape, paths: Sequence[str], schema: Schema) -> DataFrame:
        spark = Spark()
        inside = self._inside(shape, schema)
        reader = self._frame(session, shape, paths)
        if all(shape.nested.values()):  # of what is nested in others than Parquet the files themselves tell the type
            named = {name: kind.spark for name, kind in inside.items()} | dict(shape.nested)
            named |= {name: encoding.stored for name, encoding in shape.encoded.items()}
            named = named or {NONE: TEXT.spark}  # rows are read although none of their columns is
            reader = reader.schema(", ".join(f"{spark.quote(name)} {kind}" for name, kind in named.items()))
        frame: DataFrame = reader.load(self.uris(paths, copied=shape.rows.bare))
        if self.form is FileFormat.ORC:
            self._orc(session, shape, paths)
        texts = {name: spark.quote(name) for name in inside}
        if self.form not in TYPED:
            texts = {name: self._text(sql, shape) for name, sql in texts.items()}
        expressions = []
        for column, sql in self._places(schema):
            if column.name in shape.encoded:
                sql = self._decoded(sql, shape.encoded[column.name], column)  # noqa: PLW2901 - what it stands for
            if column.name not in inside or self.form not in TYPED or inside[column.name] == TEXT:
                value = self._value(sql, column, inside)
                value = value if self.form in TYPED else _here(value)
            elif column.name in shape.nested:
                kind = frame.schema[column.name].dataType.jsonValue()
                value = nested(sql, kind, ordered=self.form is FileFormat.AVRO)
            else:
                value = self._cast(sql, inside[column.name], column)
            expressions.append(f"{value} AS {spark.quote(column.name)}")
        return self._laid_out(frame, texts, self._path(copied=shape.rows.bare), schema).selectExpr(*expressions)

    def _documents(self, session: SparkSession, shape: Shape, paths: Sequence[str], schema: Schema) -> DataFrame:
        """The rows of files of JSON."""
        spark = Spark()
        copied = shape.rows.bare and self.copies is not None
        listed = not copied and (shape.listed or self._whole)
        uris = self.uris(paths, copied=copied)
        lines = uncached(session, uris).format("text").option("wholetext", str(listed).lower()).load(uris)
        lines = lines.selectExpr("value AS text", f"{self._path(copied=copied)} AS path")
        rows = json_rows.read(lines, listed=listed, quotes=any(map(self.infers, schema)))
        rows = rows.selectExpr("path", json_rows.checked("row", "problem", _failure("path", "", "problem")))
        texts = {column.name: self._of_document(column) for column in schema if column.name != self.carrier}
        return self._laid_out(rows, texts, "path", schema).selectExpr(
            *(
                f"{_here(self._value(sql, column, texts))} AS {spark.quote(column.name)}"
                for column, sql in self._places(schema)
            )
        )

    def _of_document(self, column: Column) -> str:
        """The text of a field; that of the folder where a document has no field of that name."""
        text = (json_rows.unquoted if self.infers(column) else json_rows.field)("row", column)
        if column.name not in self.partitions:
            return text
        return f"if(map_contains_key(row, {Spark().string(column.name)}), {text}, {self._partition(column, 'path')})"

    def _laid_out(self, frame: DataFrame, texts: Mapping[str, str], path: str, schema: Schema) -> DataFrame:
        """`PATH`, and what each column is made of under the names of `_places`.

        In a projection of its own: a conversion names its text many times, and Spark would read it as often.
        """
        found = {column.name: self._partition(column, path) for column in schema if column.name in self.partitions}
        found |= texts  # what a file has itself takes precedence in that file, and in no other
        found |= {self.carrier: path} if self.carrier else {}
        made = (f"{found.get(column.name, 'CAST(NULL AS string)')} AS {sql}" for column, sql in self._places(schema))
        return frame.selectExpr(f"{path} AS {PATH}", *made)

    @staticmethod
    def _places(schema: Schema) -> list[tuple[Column, str]]:
        return [(column, f"_t{number}") for number, column in enumerate(schema)]

    def _value(self, text: str, column: Column, inside: Collection[str]) -> str:
        """The value of a column that a file has as text, or does not have."""
        if column.name == self.carrier:
            return text
        if column.name in inside or column.name in self.partitions:
            return self._converted(text, column, PATH)
        return f"CAST(NULL AS {column.type.spark})"

    def _converted(self, text: str, column: Column, path: str) -> str:
        """The value of a text; one that does not fit the column's type ends the query."""
        infers = self.infers(column)
        convert = inferred if infers and self.form is FileFormat.CSV else exact  # JSON tells texts by their quotes
        value = convert(text, column.type, self.rules)
        if value == text:
            return text
        kind, reason = column.type.spark, Spark().string(_named(column.type))
        message = _failure(path, column.name, reason, what="inferred" if infers else "reason")
        failed = f"CAST(raise_error({message}) AS {kind})"
        return f"CASE WHEN {text} IS NULL THEN CAST(NULL AS {kind}) ELSE coalesce({value}, {failed}) END"

    def _decoded(self, stored: str, encoding: Encoding, column: Column) -> str:
        """The value of what Spark reads of a column that it has no type for."""
        if self.rules.rounds:
            return encoding.cut.format(stored)
        value = encoding.value.format(stored)
        if encoding.value == encoding.cut:
            return value
        what = "time" if encoding.kind == TEXT else _named(encoding.kind)
        reason = f"{what}: it has digits beyond microseconds"
        return _or_fails(stored, value, encoding.kind, column, reason, hint=hints.of_nanoseconds(column.name))

    def _cast(self, sql: str, kind: Type, column: Column) -> str:
        if castable(kind, column.type) or (self.rules.rounds and kind.kind is column.type.kind is Kind.DECIMAL):
            return sql if kind.spark == column.type.spark else f"CAST({sql} AS {column.type.spark})"
        if by_value(kind, column.type):
            hint = hints.of_number(column.name, (kind, column.type))
            reason = f"{column.type}, the column's type; in the file it is {kind}"
            return _or_fails(sql, exactly(sql, kind, column.type), column.type, column, reason, hint=hint)
        raise SchemaRefused(
            f"column {column.name!r} is {kind} in the files, and some of its values are not valid {column.type}",
            hint="Correct `source: {columns: …}` in tidegate.yaml.",
            column=column.name,
        )

    def infers(self, column: Column) -> bool:
        """Whether values of other loads or files alone say which type the column has."""
        if self.stated is None or column.name in self.stated:
            return False
        if self.form is FileFormat.JSON:
            return (column.type.element or column.type).kind in UNQUOTED
        return column.type in GUESSED

    def _text(self, sql: str, shape: Shape) -> str:
        """The text of a value of CSV as the file has it; NULL for a text that stands for it."""
        string, nulls = Spark().string, ", ".join(map(Spark().string, self.dialect.nulls))
        _, was, now = ("", "", "") if shape.rows.bare else decoding(self.dialect.encoding)
        text = f"translate({sql}, {string(was)}, {string(now)})" if was else sql
        return f"if({text} IN ({nulls}), NULL, {text})" if nulls else text

    def _inside(self, shape: Shape, schema: Schema) -> dict[str, Type]:
        """The columns that these files hold, in their order, with the types by which they are read."""
        if self.form in TYPED:
            return dict(zip(shape.names, shape.types, strict=True))
        outside = {self.carrier, *self.partitions}
        names = shape.names or tuple(name for name in schema.names if name not in outside)
        # A column that the load leaves out stands in its place all the same.
        return dict.fromkeys(names, TEXT)

    def _frame(self, session: SparkSession, shape: Shape, paths: Sequence[str]) -> Any:
        reader = uncached(session, self.uris(paths)).format(self.form)
        if self.form is not FileFormat.CSV:
            given = {name: value for name, value in self.options.items() if name.lower() != ROUND}
            return reader.options(**given, **STRICT)
        dialect = self.dialect
        encoding, _, _ = decoding("utf-8" if shape.rows.bare else dialect.encoding)
        written = {
            "header": str(dialect.header).lower(),
            "sep": shape.rows.separator or dialect.separator,
            "quote": dialect.quote,
            "escape": dialect.escape,
            "encoding": encoding,
            "ignoreLeadingWhiteSpace": str(dialect.trims[0]).lower(),
            "ignoreTrailingWhiteSpace": str(dialect.trims[1]).lower(),
            **({"comment": dialect.comment} if dialect.comment else {}),
            **{name: value for name, value in self.options.items() if name.lower() in LIMITS},
        }
        ends = {"multiLine": "true", "lineSep": shape.rows.end} if shape.rows.broken else {}
        return reader.options(**{**CSV, **written, **STRICT, **ends})

    @property
    def rules(self) -> TextRules:
        """How values are written."""
        return rules_of(self.form, self.options)

    @property
    def dialect(self) -> CsvDialect:
        """How rows of CSV are written."""
        return csv_of(self.options)

    @property
    def _whole(self) -> bool:
        """Whether a file of JSON is one document, on several lines."""
        return bool(self.dialect.multiline)

    def _orc(self, session: SparkSession, shape: Shape, paths: Sequence[str]) -> None:
        """Looks for times with digits beyond microseconds, which Spark cuts. Raises FileUnreadable."""
        spark, at = Spark(), dict(zip(shape.names, shape.types, strict=True))
        times = [name for name, kind in at.items() if kind == TIMESTAMPTZ]
        if not times or self.rules.rounds:
            return
        texts = self._frame(session, shape, paths).schema(", ".join(f"{spark.quote(name)} string" for name in times))
        more = r"[.][0-9]{6}[0-9]*[1-9]"
        first = " ".join(f"WHEN {spark.quote(name)} RLIKE '{more}' THEN {spark.string(name)}" for name in times)
        found = texts.load(self.uris(paths)).selectExpr(f"{self._path()} AS path", f"CASE {first} END AS name")
        for path, name in found.where("name IS NOT NULL").limit(1).collect():
            raise unfit(path, name, "timestamp: it has digits beyond microseconds")

    def uris(self, paths: Sequence[str], *, copied: bool = False) -> list[str]:
        """The files for Spark, to which a path is a pattern."""
        uris = [f"file://{self._copy(path)}" if copied else self.store.uri(path) for path in paths]
        return [re.sub(r"([*?\[\]{}\\])", r"\\\1", uri) for uri in uris]

    def _copy(self, path: str) -> Path:
        """The rows of a file of CSV in UTF-8, without the lines that are no rows; or one object of JSON a line."""
        if self.copies is None:
            raise ConfigError(
                f"options: {path} has lines that are no rows, or an encoding that Spark does not know, which no log of "
                "files can have",
                hint="Write it in UTF-8 without these lines.",
            )
        copy = self.copies() / f"{path}{COPY}"
        if copy.exists():
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f"{copy.name}.{uuid4().hex}")  # the copy is whole as soon as it is there
        with self.store.open(path) as content, part.open("wb") as made:
            if self.form is FileFormat.JSON:
                made.writelines(each + b"\n" for each in objects(unpacked(content, path), path))
            else:
                with bare(unpacked(content, path), path, self.dialect) as (rows, _):
                    shutil.copyfileobj(rows, made)
        return part.rename(copy)

    def _path(self, *, copied: bool = False) -> str:
        """The path below the root, decoded from the URI that Spark tells."""
        spark = Spark()
        folder = str(self.copies()) if copied and self.copies else self.store.root
        root = folder.strip("/") + "/" if folder.strip("/") else ""
        whole = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
        path = (
            f"regexp_replace({whole}, '^[A-Za-z0-9+.-]+:/*|[.]{COPY[1:]}$', '')"
            if copied
            else (f"regexp_replace({whole}, '^[A-Za-z0-9+.-]+:/*', '')")
        )
        message = spark.string("tidegate: a file is outside the folder that was listed")
        inside, failed = f"startswith({path}, {spark.string(root)})", f"CAST(raise_error({message}) AS string)"
        return f"CASE WHEN {inside} THEN substr({path}, {len(root) + 1}) ELSE {failed} END" if root else path

    def _partition(self, column: Column, path: str) -> str:
        spark = Spark()
        pattern = rf"(?:^|/)\Q{column.name}\E=([^/]*)/"
        text = f"regexp_extract({path}, {spark.string(pattern)}, 1)"
        # Hive and Spark write some characters by their codes; what is no code stands for itself.
        value = f"if({text} RLIKE '{NO_CODE}', {text}, url_decode(replace({text}, '+', '%2B')))"
        return f"CASE WHEN {text} IN ('', '{NOTHING}') THEN CAST(NULL AS string) ELSE {value} END"


def folder_columns(path: str) -> tuple[str, ...]:
    """The columns that the names of a file's folders tell.

    Example:
        >>> folder_columns("shop/day=2025-01-01/hour=7/a.csv")
        ('day', 'hour')
    """
    return tuple(part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part[1:])


def _here(value: str) -> str:
    """The value, converted at this place of a plan.

    Spark asks a condition as far down as it can and writes the conversion out wherever the condition names the column:
    a plan of some hundred conditions on converted texts takes minutes. It moves none below what is not deterministic.
    """
    return f"if(spark_partition_id() < 0, NULL, {value})"


def _named(kind: Type) -> str:
    return str(kind) if kind.stored == kind else str(kind.kind)


def _failure(path: str, column: str, reason: str, *, what: str = "reason", hint: str = "") -> str:
    """What Spark says of a value that cannot be taken, from which `spark.failures` makes an error; never the value."""
    string = Spark().string
    fields = f"'file', {path}, 'column', {string(column)}, '{what}', {reason}"
    fields += f", 'hint', {string(hint)}" if hint else ""
    return f"concat({string(UNFIT)}, to_json(named_struct({fields})))"


def _files_by_shape(shapes: Mapping[str, Shape]) -> Mapping[Shape, list[str]]:
    """The files of each shape; those without rows are left out."""
    groups: defaultdict[Shape, list[str]] = defaultdict(list)
    for path, shape in shapes.items():
        if not shape.empty:
            groups[shape].append(path)
    return groups


def _or_fails(sql: str, value: str, kind: Type, column: Column, reason: str, *, hint: str) -> str:  # noqa: PLR0913 - one expression's parts
    """The value of a typed column; one that is none ends the query."""
    message = _failure(PATH, column.name, Spark().string(reason), hint=hint)
    null, failed = (f"CAST({each} AS {kind.spark})" for each in ("NULL", f"raise_error({message})"))
    return f"CASE WHEN {sql} IS NULL THEN {null} ELSE coalesce({value}, {failed}) END"


def _wide(kind: Type) -> Type:
    return BIGINT if kind.kind is Kind.INTEGER else kind
