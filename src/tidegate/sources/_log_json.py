"""Decides how lines of JSON become rows: every field by its type, and a line that does not fit is told, never guessed.

Called by logs whose rows come as JSON. Must never let a field that is not known, or does not fit, become NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.log import KEY, ORIGIN, PLACE, RAW, REFUSED, VALUE
from tidegate.core.schema import BIGINT, Kind, Schema, Type
from tidegate.dialects.spark import Spark
from tidegate.sources._files_types import of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT = "__tidegate_corrupt"
PARSED = "__tidegate_parsed"
TEXTS = "__tidegate_text"


def lines(session: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Every line that is not blank as a message without a key, see `MessageEnvelope.events`."""
    found = session.read.format("text").load(list(uris)) if uris else session.createDataFrame([], "value string")
    file = "_metadata.file_path" if uris else "''"
    path = f"url_decode(replace({file}, '+', '%2B'))"
    return found.where("startswith(value, '{') OR trim(value) <> ''").selectExpr(
        f"CAST(NULL AS binary) AS {KEY}",
        f"CAST(value AS binary) AS {VALUE}",
        f"{path} AS {PLACE}",
        f"concat('file ', {path}) AS {ORIGIN}",
    )


def told(session: SparkSession, uris: Sequence[str]) -> dict[str, Type]:
    """The fields that these files have, and the types that Spark infers of them; what is nested is JSON."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if not uris:
        return {}
    frame = session.read.format("json").options(**options).load(list(uris))
    found = {}
    for name, kind in frame.dtypes:
        if name != CORRUPT:
            known = of_spark(kind)
            whole = known is not None and known.kind is Kind.INTEGER
            nested = known is None or known.kind is Kind.ARRAY
            found[name] = BIGINT if whole else Type(kind=Kind.JSON) if nested else known
    return {name: kind for name, kind in found.items() if kind is not None}


def parsed(messages: DataFrame, columns: Schema) -> DataFrame:
    """The values of messages as rows of these columns, see `RowEnvelope.events`.

    Rows: refused is a value that is no text in UTF-8, no JSON object, has a field of another name or one that is not of
    its type.
    """
    spark = Spark()
    ddl = ", ".join(f"{spark.quote(each.name)} {each.type.stored.spark}" for each in columns)
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    shape = spark.string(f"{ddl}, {CORRUPT} string")
    known = f"array({', '.join(map(spark.string, columns.names))})"
    texts = messages.selectExpr("*", f"CASE WHEN is_valid_utf8(string({VALUE})) THEN string({VALUE}) END AS {TEXTS}")
    rows = texts.selectExpr("*", f"from_json({TEXTS}, {shape}, {options}) AS {PARSED}")
    strangers = f"array_except(json_object_keys({TEXTS}), {known})"
    refused = (
        f"CASE WHEN {VALUE} IS NULL THEN 'it is empty' WHEN {TEXTS} IS NULL THEN 'it is no text in UTF-8' "
        f"WHEN json_object_keys({TEXTS}) IS NULL THEN 'it is no JSON object' "
        f"WHEN size({strangers}) > 0 THEN concat('it has fields that nobody knows: ', concat_ws(', ', {strangers})) "
        f"WHEN {PARSED}.{CORRUPT} IS NOT NULL THEN 'a field of it does not have its type' END"
    )
    raw = f"coalesce({TEXTS}, base64({VALUE}))"
    told_of = rows.selectExpr("*", f"{refused} AS {REFUSED}")
    return told_of.selectExpr(
        *(f"{PARSED}.{spark.quote(name)} AS {spark.quote(name)}" for name in columns.names),
        PLACE,
        ORIGIN,
        REFUSED,
        f"CASE WHEN {REFUSED} IS NOT NULL THEN {raw} END AS {RAW}",
    )
