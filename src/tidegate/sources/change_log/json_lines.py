"""Parses JSON lines into typed rows; a line that does not fit is refused with a reason.

An unknown or invalid field never becomes NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.log import KEY, ORIGIN, PLACE, RAW, REFUSED, VALUE
from tidegate.core.schema import BIGINT, Kind, Schema, Type
from tidegate.dialects.spark import Spark, json_rows
from tidegate.dialects.spark.exact_text import TextRules, exact
from tidegate.sources.shared.files.types import of_spark
from tidegate.spark.caching import uncached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT = "__tidegate_corrupt"


def lines(session: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Every line that is not blank as a message without a key, see `MessageEnvelope.events`."""
    found = (
        uncached(session, uris).format("text").load(list(uris)) if uris else session.createDataFrame([], "value string")
    )
    file = "_metadata.file_path" if uris else "''"
    path = f"url_decode(replace({file}, '+', '%2B'))"
    return found.where("startswith(value, '{') OR trim(value) <> ''").selectExpr(
        f"CAST(NULL AS binary) AS {KEY}",
        f"CAST(value AS binary) AS {VALUE}",
        f"{path} AS {PLACE}",
        f"concat('file ', {path}) AS {ORIGIN}",
    )


def inferred_types(session: SparkSession, uris: Sequence[str]) -> dict[str, Type]:
    """The fields that these files have, and the types that Spark infers of them; what is nested is JSON."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if not uris:
        return {}
    frame = uncached(session, uris).format("json").options(**options).load(list(uris))
    found = {}
    for name, kind in frame.dtypes:
        if name != CORRUPT:
            known = of_spark(kind)
            whole = known is not None and known.kind is Kind.INTEGER
            nested = known is None or known.kind is Kind.ARRAY
            found[name] = BIGINT if whole else Type(kind=Kind.JSON) if nested else known
    return {name: kind for name, kind in found.items() if kind is not None}


def parsed(messages: DataFrame, columns: Schema, rules: TextRules) -> DataFrame:
    """The values of messages as rows of these columns, see `RowEnvelope.events`.

    Rows: refused is a value that is no text in UTF-8, no JSON object, has a field of another name or one that is not of
    its type.
    """
    spark = Spark()
    known = f"array({', '.join(map(spark.string, columns.names))})"
    texts = messages.selectExpr(PLACE, ORIGIN, VALUE, f"string({VALUE}) AS text")
    rows = json_rows.read(texts, keep_blank=True)
    strangers = f"array_except(map_keys(row), {known})"
    fields = [(each, json_rows.field("row", each)) for each in columns]
    values = rows.selectExpr(
        *(PLACE, ORIGIN, VALUE, "row", "problem"), *(f"{text} AS t{n}" for n, (_, text) in enumerate(fields))
    )
    values = values.selectExpr(
        *(PLACE, ORIGIN, VALUE, "row", "problem"),
        *(f"t{n} IS NOT NULL AS h{n}" for n, _ in enumerate(fields)),
        *(f"{exact(f't{n}', each.type, rules)} AS c{n}" for n, (each, _) in enumerate(fields)),
    )
    unfit = " OR ".join(f"(h{n} AND c{n} IS NULL)" for n, _ in enumerate(fields))
    refused = (
        f"CASE WHEN {VALUE} IS NULL THEN 'it is empty' WHEN problem IS NOT NULL THEN problem "
        f"WHEN size({strangers}) > 0 THEN concat('it has unknown fields: ', concat_ws(', ', {strangers})) "
        f"WHEN {unfit} THEN 'one of its fields has the wrong type' END"
    )
    whole = f"if(is_valid_utf8(string({VALUE})), string({VALUE}), base64({VALUE}))"
    checked_values = values.selectExpr("*", f"{refused} AS {REFUSED}")
    return checked_values.selectExpr(
        *(f"c{n} AS {spark.quote(each.name)}" for n, (each, _) in enumerate(fields)),
        PLACE,
        ORIGIN,
        REFUSED,
        f"CASE WHEN {REFUSED} IS NOT NULL THEN {whole} END AS {RAW}",
    )
