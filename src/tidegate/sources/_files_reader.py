"""Decides how Spark reads files of one shape, and how files of several shapes become one set of columns.

Called by the probe of files and by the source. Must never let Spark choose which files to read, guess a type while it
reads, or turn what it cannot parse into NULL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.schema import BIGINT, TEXT, Column, Kind, Schema, Type
from tidegate.dialects.spark import Spark
from tidegate.errors import SchemaRefused
from tidegate.sources._files_place import Store
from tidegate.sources._files_shape import TYPED, FileFormat, Shape
from tidegate.sources._files_types import castable, of_spark

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
DEFAULTS: Mapping[FileFormat, Mapping[str, str]] = {
    # With no text for NULL, a value that is empty in quotes is an empty text, and one without them is NULL.
    FileFormat.CSV: {"header": "true", "multiLine": "true", "nullValue": "\0"}
}
NOTHING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How files of one source are read.

    Args:
        options: of Spark's reader, as the user states them.
        carrier: the column that gets each row's path; None for none.
        partitions: columns whose values stand in the folders' names.
    """

    store: Store
    form: FileFormat
    options: Mapping[str, str]
    carrier: str | None = None
    partitions: tuple[str, ...] = ()

    def rows(self, session: SparkSession, shapes: Mapping[str, Shape], schema: Schema) -> DataFrame:
        """The rows of exactly these files, columns of `schema` in order with its stored types; NULL where one lacks it.

        Raises:
            SchemaRefused: a type that is stated would change values of a file's own.
        """
        frames = [self._group(session, shape, paths, schema) for shape, paths in _alike(shapes).items()]
        if not frames:
            ddl = ", ".join(f"{Spark().quote(column.name)} {column.type.spark}" for column in schema)
            return session.createDataFrame([], ddl)
        together = frames[0]
        for frame in frames[1:]:
            together = together.union(frame)
        return together

    def told(self, session: SparkSession, shapes: Mapping[str, Shape]) -> list[tuple[str, dict[str, Type]]]:
        """The types that Spark infers for files whose format has none: for each shape its first file, and its columns.

        Whole numbers are `bigint`, so that a file of small ones does not contradict one of great ones; what is nested
        is JSON.
        """
        found = []
        for shape, paths in _alike(shapes).items():
            frame = self._frame(session, shape, {"inferSchema": "true"}).load(self._uris(paths))
            # A header is a name as it stands there; Spark numbers names that differ only by case.
            names = shape.names or tuple(frame.columns)
            kinds = (of_spark(kind) or Type(kind=Kind.JSON) for _, kind in frame.dtypes)
            found.append((paths[0], {name: _wide(kind) for name, kind in zip(names, kinds, strict=True)}))
        return found

    def _group(self, session: SparkSession, shape: Shape, paths: Sequence[str], schema: Schema) -> DataFrame:
        spark = Spark()
        inside = self._inside(shape, schema)
        reader = self._frame(session, shape, {})
        if not shape.nested:  # what is nested has no type of ours: the files themselves tell it
            reader = reader.schema(", ".join(f"{spark.quote(name)} {kind.spark}" for name, kind in inside.items()))
        frame: DataFrame = reader.load(self._uris(paths))
        expressions = []
        for column in schema:
            if column.name in inside:
                sql = spark.quote(column.name)
                if self.form in TYPED:
                    sql = f"to_json({sql})" if column.name in shape.nested else _cast(sql, inside[column.name], column)
            elif column.name == self.carrier:
                sql = self._path()
            elif column.name in self.partitions:
                sql = self._partition(column)
            else:
                sql = f"CAST(NULL AS {column.type.spark})"
            expressions.append(f"{sql} AS {spark.quote(column.name)}")
        return frame.selectExpr(*expressions)

    def _inside(self, shape: Shape, schema: Schema) -> dict[str, Type]:
        """The columns that these files hold, in their order, with the types by which they are read."""
        if self.form in TYPED:
            return dict(zip(shape.names, shape.types, strict=True))
        types = {column.name: column.type for column in schema}
        outside = {self.carrier, *self.partitions}
        names = shape.names or tuple(name for name in types if name not in outside)
        # A column that the load leaves out stands in its place all the same.
        return {name: types.get(name, TEXT) for name in names}

    def _frame(self, session: SparkSession, shape: Shape, extra: Mapping[str, str]) -> Any:
        options = {**DEFAULTS.get(self.form, {}), **self.options, **STRICT, **extra}
        if self.form is FileFormat.JSON:
            options = {"multiLine": str(shape.listed).lower(), **options}
        return session.read.format(self.form).options(**options)

    def uri(self, path: str) -> str:
        """The file for Spark, to which a path is a pattern."""
        return re.sub(r"([*?\[\]{}\\])", r"\\\1", self.store.uri(path))

    def _uris(self, paths: Sequence[str]) -> list[str]:
        return [self.uri(path) for path in paths]

    def _path(self) -> str:
        """The path below the root, decoded from the URI that Spark tells."""
        spark = Spark()
        root = self.store.root.strip("/") + "/" if self.store.root.strip("/") else ""
        whole = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
        bare = f"regexp_replace({whole}, '^[A-Za-z0-9+.-]+:/*', '')"
        message = spark.string("tidegate: a file lies beside the folder that was listed")
        inside, failed = f"startswith({bare}, {spark.string(root)})", f"CAST(raise_error({message}) AS string)"
        return f"CASE WHEN {inside} THEN substr({bare}, {len(root) + 1}) ELSE {failed} END" if root else bare

    def _partition(self, column: Column) -> str:
        spark = Spark()
        pattern = rf"(?:^|/)\Q{column.name}\E=([^/]*)/"
        text = f"regexp_extract({self._path()}, {spark.string(pattern)}, 1)"
        value = f"url_decode(replace({text}, '+', '%2B'))"
        known = f"CASE WHEN {text} IN ('', '{NOTHING}') THEN CAST(NULL AS string) ELSE {value} END"
        return f"CAST({known} AS {column.type.spark})"


def _alike(shapes: Mapping[str, Shape]) -> Mapping[Shape, list[str]]:
    """The files of each shape; those without rows are left out."""
    groups: defaultdict[Shape, list[str]] = defaultdict(list)
    for path, shape in shapes.items():
        if not shape.empty:
            groups[shape].append(path)
    return groups


def _cast(sql: str, kind: Type, column: Column) -> str:
    if not castable(kind, column.type):
        raise SchemaRefused(
            f"column {column.name!r} is {kind} in the files, and some of its values are none of {column.type}",
            hint="Correct `source: {columns: …}` in tidegate.yaml.",
            column=column.name,
        )
    return sql if kind.spark == column.type.spark else f"CAST({sql} AS {column.type.spark})"


def _wide(kind: Type) -> Type:
    return BIGINT if kind.kind is Kind.INTEGER else kind
