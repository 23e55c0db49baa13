"""Turns JSON documents into rows in Spark: each field as its original text, or the reason why it is invalid.

Used for JSON files and files of events. A document is one object, or an array of objects, in UTF-8; nothing may follow
it, and no name may occur twice in an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.schema import TEXT, Column, Kind, Type
from tidegate.dialects.spark import LONG_STRINGS, Spark
from tidegate.dialects.spark.json_text import BLANK, MARK, NO_CHARACTER, cannot_be_kept, marked, one_document, unmarked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = "map<string, string>"
BOM = "\ufeff"
# What Spark's parser takes and JSON does not have.
STRICT = f"map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false', {LONG_STRINGS})"


def read(documents: DataFrame, *, listed: bool = False, keep_blank: bool = False, quotes: bool = False) -> DataFrame:
    """A row for each object.

    Args:
        documents: `text` and other columns.
        listed: a document may be an array of objects.
        keep_blank: a blank document is a row, too, with a problem.
        quotes: rows tell what has quotes in the document, for `unquoted`.

    Rows: the other columns, `row` (of `ROW`, marked, see `field`) and `problem`, for people; NULL for none.
    """
    others = [Spark().quote(name) for name in documents.columns if name != "text"]
    string = Spark().string
    trimmed = f"trim(BOTH {string(BLANK)} FROM ltrim({string(BOM)}, text))"
    # Trimming takes eight times the memory of a text, and hardly any needs it.
    bare = f"substr(text, 1, 1) IN ({_openings(listed=True)}) AND right(text, 1) IN ('}}', ']')"
    found = documents.selectExpr(*others, f"if({bare}, text, {trimmed}) AS text")
    found = found if keep_blank else found.where("text <> ''")
    begins = "substr(text, 1, 1)"
    problem = (
        "CASE WHEN NOT is_valid_utf8(text) THEN 'it is not valid UTF-8' "
        f"WHEN NOT {begins} IN ({_openings(listed)}) THEN 'it is not a JSON object' "
        f"WHEN NOT {one_document('text')} THEN 'it is not one complete JSON document' "
        f"WHEN {cannot_be_kept('text')} THEN '{NO_CHARACTER}' END"
    )
    if not listed:
        found = found.selectExpr(*others, "text", f"{problem} AS problem")
        found = found.selectExpr(
            *others, "problem", f"if(problem IS NULL, {marked('text', every=quotes)}, NULL) AS text"
        )
        found = found.selectExpr(*others, "problem", f"from_json(text, '{ROW}', {STRICT}) AS row")
    else:
        whole = f"if({begins} = '[', text, concat('[', text, ']'))"
        found = found.selectExpr(*others, "text", f"{problem} AS problem")
        found = found.selectExpr(
            *others, "problem", f"if(problem IS NULL, {marked(whole, every=quotes)}, NULL) AS text"
        )
        rows = f"from_json(text, 'array<{ROW}>', {STRICT})"
        one = f"if(problem IS NULL, {rows}, array(CAST(NULL AS {ROW})))"
        found = found.selectExpr(*others, "problem", f"explode(coalesce({one}, array(CAST(NULL AS {ROW})))) AS row")
    reason = (
        "CASE WHEN problem IS NOT NULL THEN problem WHEN row IS NULL THEN 'it is not a JSON object' "
        "WHEN size(row) > size(array_distinct(map_keys(row))) THEN 'it has a duplicate name' END"
    )
    return found.selectExpr(*others, "row", f"{reason} AS problem")


def checked(row: str, problem: str, failure: str) -> str:
    """The rows, where a problem ends the query with a message."""
    return f"CASE WHEN {problem} IS NULL THEN {row} ELSE CAST(raise_error({failure}) AS {ROW}) END AS row"


def field(row: str, column: Column) -> str:
    """The text of a field of a row, as the document has it."""
    return unmarked(f"{row}[{Spark().string(column.name)}]")


def unquoted(row: str, column: Column) -> str:
    """The text of a field that is a number or a boolean (or a list of them) in the document.

    A field that is anything else has an empty text, which is no value of these types.
    """
    value = f"{row}[{Spark().string(column.name)}]"
    if column.type.kind is not Kind.ARRAY:
        text, is_one = f"substr({value}, 2)", _is_one(value, column.type)
    else:
        elements = f"from_json({value}, 'array<string>', map({LONG_STRINGS}))"
        is_one = f"forall({elements}, y -> y IS NULL OR {_is_one('y', column.type.element or TEXT)})"
        text = unmarked(value)
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {is_one} THEN {text} ELSE '' END"


def _is_one(value: str, kind: Type) -> str:
    """Whether a marked value is a boolean, or a number."""
    string = Spark().string
    words = f"{value} IN ({string(f'{MARK}true')}, {string(f'{MARK}false')})"
    return words if kind.kind is Kind.BOOLEAN else f"startswith({value}, {string(MARK)}) AND NOT {words}"


def _openings(listed: bool) -> str:
    return "'{', '['" if listed else "'{'"
