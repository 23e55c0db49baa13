"""Parses JSON in Spark without losing digits: Spark itself converts numbers with a point or exponent to double.

Such numbers are quoted and marked before parsing, and the mark is removed from the parsed text.
"""

from __future__ import annotations

from typing import Any

from tidegate.dialects.spark import Spark

MARK = "\ufdd0"
"""A character that Unicode keeps for the inner use of programs; a document that holds one is refused."""
NO_CHARACTER = "it contains U+FDD0 or half of a surrogate pair, which are no characters"
END = "tidegate: end of the document"
QUOTED_END = f'"{END}"'
ESCAPE = "\\u"
BLANK = " \n\r\t"
STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Also the zero with a sign, of which Spark's parser leaves the sign out.
FRACTION = r"-?[0-9]++(?:[.][0-9]++(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)|-0(?![.eE0-9])"
UNQUOTED = r"-?[0-9]++(?:[.][0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false"


def marked(text: str, *, every: bool = False) -> str:
    """The document with every number that has a point or an exponent as a marked string.

    Args:
        every: all numbers, true and false; then what has no mark has quotes in the document, or is null or nested.
    """
    string = Spark().string
    # Strings and whole numbers are matched, too, so that nothing is found inside of them, and put back as they are.
    pattern = string(f"(?s)({STRING})|({UNQUOTED})" if every else f"(?s)({STRING}|[0-9]++(?![.eE0-9]))|({FRACTION})")
    open_, close = "\x01", "\x02"  # JSON allows neither in a document
    split = f"regexp_replace({text}, {pattern}, {string(f'$1{open_}$2{close}')})"
    kept = f"replace({split}, {string(open_ + close)}, '')"
    quoted = f"""replace(replace({kept}, {string(open_)}, {string('"' + MARK)}), {string(close)}, '"')"""
    if every:
        return quoted
    maybe = r"[-0-9][.eE][-+0-9]|-0"
    return f"CASE WHEN {text} RLIKE '{maybe}' THEN {quoted} ELSE {text} END"


def unmarked(value: str) -> str:
    """The text of a value of a marked document, as the document itself has it."""
    string = Spark().string
    inner = f"""regexp_replace({value}, {string(f'"{MARK}([^"]*)"')}, '$1')"""
    one = f"CASE WHEN startswith({value}, {string(MARK)}) THEN substr({value}, 2) ELSE {inner} END"
    return f"CASE WHEN contains({value}, {string(MARK)}) THEN {one} ELSE {value} END"


def nested(value: str, kind: Any, *, ordered: bool) -> str:
    """The JSON of a nested value, with every digit of its times.

    Args:
        kind: the type, as `DataType.jsonValue` has it.
        ordered: the entries of maps are in the order of their keys.
    """
    moment = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    formats = {"timestampFormat": f"{moment}XXX", "timestampNTZFormat": moment}
    options = ", ".join(f"'{name}', {Spark().string(pattern)}" for name, pattern in formats.items())
    return f"to_json({in_order(value, kind) if ordered else value}, map({options}))"


def in_order(value: str, kind: Any, depth: int = 0) -> str:
    """The value with the entries of all maps in it in the order of their keys; a reader of Avro gives them in none.

    Args:
        kind: the type, as `DataType.jsonValue` has it.
    """
    if "map" not in str(kind) or not isinstance(kind, dict):
        return value
    one, other, string, quote = f"x{depth}", f"y{depth}", Spark().string, Spark().quote
    if kind["type"] == "array":
        return f"transform({value}, {one} -> {in_order(one, kind['elementType'], depth + 1)})"
    if kind["type"] == "map":
        compared = f"CASE WHEN {one}.key < {other}.key THEN -1 WHEN {one}.key > {other}.key THEN 1 ELSE 0 END"
        entries = f"array_sort(map_entries({value}), ({one}, {other}) -> {compared})"
        inner = in_order(f"{one}.value", kind["valueType"], depth + 1)
        return f"map_from_entries(transform({entries}, {one} -> struct({one}.key, {inner} AS value)))"
    parts = ((each["name"], in_order(f"{value}.{quote(each['name'])}", each["type"], depth)) for each in kind["fields"])
    made = ", ".join(f"{string(name)}, {inner}" for name, inner in parts)
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({made}) END"


def one_document(text: str) -> str:
    """Whether the text is exactly one JSON value: Spark's parser ends with the first, whatever follows.

    Followed by an end of ours in an array, the second element is that end only if one value came before it.
    """
    string = Spark().string
    whole = f"concat('[', {text}, ',', {string(QUOTED_END)}, ']')"
    return f"coalesce(get_json_object({whole}, '$[1]') = {string(END)}, false)"


def cannot_be_kept(text: str) -> str:
    """Whether it holds half of a surrogate pair, which is no character, or the mark itself, written out or escaped.

    Most documents hold neither an escape nor the mark, and are not looked at any further.
    """
    high, low = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    odd = r"(?<!\\)(?:\\\\)*+"
    alone = rf"{odd}{high}(?!{low})|(?<!{high}){odd}{low}"
    escaped = r"\\u[fF][dD][dD]0"
    string = Spark().string
    odd_one = f"{text} RLIKE {string(f'{alone}|{escaped}')}"
    return f"(contains({text}, {string(MARK)}) OR (contains({text}, {string(ESCAPE)}) AND {odd_one}))"
