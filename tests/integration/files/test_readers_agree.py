"""The reader that loads and the one that verifies take the same values from the same files, or both refuse them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidegate.core.schema import BIGINT, REAL, Column, Schema, Type, array, decimal
from tidegate.dialects.spark.exact_text import TextRules, exact, inferred, kind_of
from tidegate.errors import ConfigError, TidegateError
from tidegate.sources.shared.files.options import checked, rules_of
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import FileFormat, shape_of
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.files.types import GUESSES, stated
from tidegate.sources.shared.files.values import fits, shows
from tidegate.sources.shared.reference import FileRows, values
from tidegate.spark.failures import translated

pytestmark = pytest.mark.spark

CSV, JSON = FileFormat.CSV, FileFormat.JSON
REFUSED = "refused"
TWO = {"id": "bigint", "v": "text"}


def spark_rows(spark, folder, path, form, options, schema: Schema, stated=None):
    """Sorted rows as the loading reader has them; REFUSED where it refuses."""
    store = folder_of(str(folder))
    try:
        checked(form, options)
        shapes = {path: shape_of(store, path, form, options, frozenset())}
        with translated("reading"):
            rows = Reader(store=store, form=form, options=options, stated=stated).rows(spark, shapes, schema).toArrow()
    except ConfigError:
        raise
    except TidegateError as error:
        if error.code not in ("file_unreadable", "schema_refused"):
            raise
        return REFUSED
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


def reference_rows(folder, path, form, options, schema: Schema, stated=None):
    """The same by the reader that verifies."""
    store = folder_of(str(folder))
    rows = FileRows(store=store, form=str(form), options=options, schema=schema, stated=stated)
    try:
        tables = list(rows.tables([path], schema.names))
    except TidegateError as error:
        if error.code != "file_unreadable":
            raise
        return REFUSED
    found = [row for table in tables for row in table.select(schema.names).to_pylist()]
    return sorted((tuple(row.values()) for row in found), key=repr)


def schema_of(types: dict[str, str]) -> Schema:
    kinds: dict[str, Type] = stated(types)
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in kinds.items()))


def both(spark, folder, content: bytes, form=CSV, options=None, types=None, name="a"):
    path, schema = f"{name}.{form}", schema_of(types or TWO)
    (folder / path).write_bytes(content)
    one = spark_rows(spark, folder, path, form, options or {}, schema)
    return one, reference_rows(folder, path, form, options or {}, schema)


GERMAN = {"sep": ";", "decimal": ",", "thousands": "."}
TRIMS = {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
FILES = {
    "rfc": (b'id,v\n1,"say ""hi"""\n2,"C:\\dir\\"\n3,"a""b"\n4,x\n', {}),
    "cp1252": ("id,v\n1,größe €\n2,ž\n3,\x20\n".encode("cp1252"), {"encoding": "windows-1252"}),
    "cp1252, a byte that is none": (b"id,v\n1,\x81\n", {"encoding": "windows-1252"}),
    "koi8-r": ("id,v\n1,привет\n".encode("koi8-r"), {"encoding": "koi8-r"}),
    "latin1": ("id,v\n1,é\n".encode("latin1"), {"charset": "ISO-8859-1"}),
    "latin1 as utf-8": ("id,v\n1,é\n".encode("latin1"), {}),
    "ascii": ("id,v\n1,é\n".encode(), {"encoding": "ascii"}),
    "utf-16": ("id,v\n1,é\n2,\u2028\n".encode("utf-16"), {"encoding": "UTF-16"}),
    "utf-16be": ("id,v\n1,é\n".encode("utf-16-be"), {"encoding": "UTF-16BE"}),
    "utf-16 without a mark": ("id,v\n1,é\n".encode("utf-16-le"), {"encoding": "UTF-16"}),
    "utf-32": ("id,v\n1,é😀\n".encode("utf-32"), {"encoding": "UTF-32"}),
    "trims": (b'id,v\n 1 , a b \n2,\t"c "  \n 3," d"\n4,   \n5,""\n6, "" \n7,\te\n', TRIMS),
    "trims before": (b'id,v\n 1, a \n2, "c "\n3,   \n', {"ignoreLeadingWhiteSpace": "true"}),
    "trims after": (b'id,v\n1 , a \n2,"c " \n3,   \n', {"ignoreTrailingWhiteSpace": "true"}),
    "trims, separated by tabs": (b'id\tv\n 1 \t a\n2\t\n3\t "x\ty" \n', {**TRIMS, "sep": "\\t"}),
    "trims, in quotes twice": (b'id,v\n1, "a" "b" \n', TRIMS),
    "no trims": (b"id,v\n1, a \n2,  \n", {}),
    "a number with a blank": (b"id,v\n 1,a\n", {}),
    "escape": (b'id,v\n1,"a\\"b"\n2,"\\\\"\n3,"C:\\dir\\\\"\n4,C:\\\n5,"\\\\\\""\n', {"escape": "\\\\"}),
    "escape, a quote twice": (b'id,v\n1,"a""b"\n', {"escape": "\\\\"}),
    "another quote": (b"id,v\n1,'a,''b'\n2,\"\n", {"quote": "'"}),
    "no quote": (b'id,v\n1,"a\n2,b"c\n', {"quote": ""}),
    "quotes within": (b'id,v\n1,5" pipe\n2,a"b"c\n', {}),
    "quotes that do not end": (b'id,v\n1,"a\n2,b\n', {}),
    "several characters": (b'id||v\n1||"a||b"\n2||"a|"\n3||a|b\n', {"sep": "||"}),
    "comments": (b'#"x\nid,v\n#,,,\n1,"a\n#b"\n2,#c\n#\n"#3",d\n', {"comment": "#"}),
    "comments, a quote that does not end": (b'id,v\n#x\n1,"a\n2,b\n', {"comment": "#"}),
    "comments, another byte": (b"id,v\n#x\n1,\xff\n", {"comment": "#"}),
    "comments, crlf": (b'#x\r\nid,v\r\n#y\r\n1,"a\r\nb"\r\n', {"comment": "#"}),
    "null": (b'id,v\n1,NA\n2,"NA"\n3,\n4,""\n', {"nullValue": "NA"}),
    "null, nothing": (b'id,v\n1,\n2,""\n', {"nullValue": ""}),
    "nulls of numbers": (b"id,v\nNA,a\n,b\n", {"nullValue": "NA"}),
    "nothing is no number": (b'id,v\n"",a\n', {}),
    "no header": (b"1,a\n2,b\n", {"header": "false"}),
    "no header, too few": (b"1\n", {"header": "false"}),
    "too few": (b"id,v\n1\n", {}),
    "too many": (b"id,v\n1,a,b\n", {}),
    "a blank line": (b"id,v\n1,a\n\n \n2,b\n", {}),
    "empty lines": (b"\n\nid,v\n\n1,a\n\n", {}),
    "mixed ends": (b"id,v\n1,a\r\n2,b\n3,c", {}),
    "crlf in quotes": (b'id,v\r\n1,"a\nb"\r\n2,"c\r\nd"\r\n', {}),
    "a mark": (b"\xef\xbb\xbfid,v\n1,a\n", {}),
    "only a header": (b"id,v\n", {}),
    "nothing": (b"", {}),
    "other columns": (b"x,v,id\n1,a,2\n", {}),
    "a column that is not there": (b"id\n1\n", {}),
    "names twice": (b"id,id\n1,2\n", {}),
}


DOCUMENTS = {
    "numbers": b'{"id": 1, "v": 1.10}\n{"id": 1e2, "v": -0}\n{"id": 3.0, "v": 12345678901234567890123}\n',
    "comments": b'{"id": 1} // x\n',
    "infinity": b'{"id": 1, "v": -Infinity}\n',
    "zeros before": b'{"id": 01}\n',
    "a tab in a text": b'{"id": 1, "v": "a\tb"}\n',
    "escapes": b'{"id": 1, "v": "\\u00e9\\ud83d\\ude00\\n\\/\\u0000"}\n',
    "latin1": b'{"id": 1, "v": "\xe9"}\n',
    "marks": b'\xef\xbb\xbf{"id": 1}\n\xef\xbb\xbf{"id": 2}\n',
    "ends": b'{"id": 1}\r\n{"id": 2}\r{"id": 3}\n\n \n',
    "u2028": '{"id": 1, "v": "a\u2028b"}\n'.encode(),
    "booleans": b'{"id": 1, "v": true}\n{"id": 2, "v": null}\n',
    "an array": b'[{"id": 1},\n {"id": 2}]\n',
    "an empty array": b"[]",
    "an array without a comma": b'[{"id": 1} {"id": 2}]',
    "an array with a comma too many": b'[{"id": 1},]',
    "a comma too many": b'{"id": 1,}\n',
    "nothing": b"",
}
WHOLE = {
    "one document": b'{\n "id": 1,\n "v": "a"\n}\n',
    "two documents": b'{"id": 1}\n{"id": 2}\n',
    "an array": b'[\n{"id": 1},\n{"id": 2}]',
    "blank": b" \n",
}


def test_rows_and_documents(tmp_path, spark):
    cases = [(what, content, CSV, options) for what, (content, options) in FILES.items()]
    cases += [(what, content, JSON, {}) for what, content in DOCUMENTS.items()]
    cases += [(f"whole: {what}", content, JSON, {"multiLine": "true"}) for what, content in WHOLE.items()]
    differ = {}
    for number, (what, content, form, options) in enumerate(cases):
        one, other = both(spark, tmp_path, content, form, options, name=str(number))
        if one != other:
            differ[what] = (one, other)
    assert differ == {}


KINDS = ["boolean", "int", "bigint", "decimal(10,2)", "decimal(38,0)", "decimal(38,38)", "double", "date"]
KINDS += ["timestamp", "timestamptz", "time", "uuid"]
NUMBERS_WRITTEN = (
    "1 -0 +5 1. .5 . 1e5 1E-2 1.50e1 1e 0x1F 1_000 007 1,5 1.234,50 1.105 1.234.567,5 12.34 1,234.5 1e400 -1e-400 "
    "16777217 16777216 9223372036854775808 NaN 2147483648 99999999999999999999999999999999999999 9007199254740993 inf "
    "-Infinity 1.5e-3 1.234 1234,5 0,005 true T 0 yes \u0661 1d 1f 1.0e0 1e39 1e-37 3e-46 1152921504606846976 01067 "
    "+49 0.12345678901234568901 12345678901234567.9"
)
TIMES_WRITTEN = (
    "2025-1-5|2025-02-29|2024-02-29|0000-01-01|0001-01-01|9999-12-31 23:59:59.999999|10000-01-01|2025-01-01 1:02|"
    "2025-01-01T10:00:00.1000000|2025-01-01 10:60|2025-01-01 10:00:00 UTC|20250101|2025-01-01 10:00+5|"
    "2025-01-01 10:00+0530|2025-01-01 10:00:00-05:30|2025-01-01 10|2025-01-01 24:00|2025-01-01 10:00:00.1234567|"
    "9999-12-31 23:59:59.9999999|9999-12-31 23:59:59-01:00|2025-01-01 10:00Z|0001-01-01 00:00:00+01:00|"
    "2025-03-30 02:30:00|2025-10-26 02:30:00|2025-01-01 10:00:00+19:00|2025-01|2025-01-01 10:00:00.|2025-01-01 10:0|"
    "23:59:59.5|3:4:5|3:04|23:59:59.9999999|24:00|1:00:00 |1600-06-01 00:00:00.000001|1583-01-01|1500-02-29|"
    "2025-01-01 10:00:00 +01:00|2025-06-15 12:00:00"
)
NUMBERS, TIMES = NUMBERS_WRITTEN.split(), TIMES_WRITTEN.split("|")
OTHERS = ["01234567-89AB-cdef-0123-456789abcdef", "01234567-89AB-cdef-0123-456789abcde"]
OTHERS += ["0123456789ABcdef0123456789abcdef", "x", "1 ", ""]
RULES = {
    "plain": {},
    "round": {"round": "true"},
    "german": {"decimal": ",", "thousands": "."},
    "swiss": {"thousands": "'"},
    "comma": {"decimal": ","},
    "zone": {"timeZone": "Europe/Berlin"},
    "offset": {"timeZone": "+05:30", "round": "true"},
}


def random_numbers(source: random.Random) -> list[str]:
    def number() -> str:
        whole = "".join(source.choices("0123456789", k=source.choice([0, 1, 3, 8, 9, 20, 39])))
        part = "".join(source.choices("0123456789", k=source.choice([0, 1, 2, 3, 38])))
        marks = source.choice(["", ".", ","]), source.choice(["", "", "e3", "E-2", f"e{source.randint(-40, 40)}"])
        return source.choice(["", "-", "+"]) + whole + marks[0] + part + marks[1]

    return [number() for _ in range(120)]


@pytest.mark.parametrize("name", RULES)
def test_values_of_every_type(spark, name):
    """Spark's expression, the rule in Python that finds the line, and the reader that verifies."""
    options = RULES[name]
    checked(CSV, options)
    found = [*NUMBERS, *TIMES, *OTHERS, *random_numbers(random.Random(name))]
    rules = rules_of(CSV, options)
    told = values.TextRules.of({key.lower(): value for key, value in options.items()})
    columns = (*schema_of({f"c{n}": kind for n, kind in enumerate(KINDS)}).columns, Column(name="r", type=REAL))
    frame = spark.createDataFrame([(text,) for text in found], "t string")
    rows = frame.selectExpr(*(f"{exact('t', column.type, rules)} AS {column.name}" for column in columns)).toArrow()
    differ = []
    for column in columns:
        for text, one in zip(found, rows.column(column.name).to_pylist(), strict=True):
            try:
                other = values.of_texts(pa.array([text]), column.type, told)[0].as_py()
            except (ValueError, ArithmeticError, LookupError):
                other = None
            fit = fits(text, column.type, rules)
            other = one if column.type == REAL else other  # no project file states it
            if repr(one) != repr(other) or fit is (one is None):
                differ.append((str(column.type), text, one, other, fit))
    assert differ == []


def test_what_a_type_is_inferred_from_is_what_it_takes_later(spark):
    """One rule, written three times: what infers, what loads, and what finds the line."""
    rules = TextRules()
    found = [*NUMBERS, *TIMES, *OTHERS, *random_numbers(random.Random(12))]
    frame = spark.createDataFrame([(text,) for text in found], "t string")
    kinds = [f"CAST({inferred('t', kind, rules)} AS string) AS c{n}" for n, (_, kind) in enumerate(GUESSES)]
    for row in frame.selectExpr("t", f"{kind_of('t', rules)} AS letter", *kinds).collect():
        for n, (letters, kind) in enumerate(GUESSES):
            takes = row[f"c{n}"] is not None
            assert takes is (row["letter"] in letters), (row["t"], row["letter"], str(kind), row[f"c{n}"])
            assert shows(row["t"], kind, rules) in (takes, None), (row["t"], str(kind))
            if takes and kind in (BIGINT, decimal(38, 0)):
                assert row[f"c{n}"] == row["t"].replace("-0", "0"), row["t"]


KINDS_OF_JSON = {"n": "bigint", "b": "boolean", "f": "double"}
OF_JSON = [
    "-1",
    "5.0",
    "1e3",
    '"1"',
    '"01067"',
    "true",
    '"true"',
    "null",
    "[1]",
    "{}",
    '""',
    "-0",
    '"\\u0031"',
    '"NaN"',
]


def test_what_has_quotes_in_json_is_never_inferred_to_be_a_number(tmp_path, spark):
    """Lists have no second reader: what Spark takes of them is what is written there."""
    differ = {}
    for name, kind in KINDS_OF_JSON.items():
        schema = schema_of({name: kind})
        for number, value in enumerate(OF_JSON):
            path = f"{name}{number}.json"
            (tmp_path / path).write_text(f'{{"x": "1", "{name}": {value}}}\n')
            one = spark_rows(spark, tmp_path, path, JSON, {}, schema, stated=frozenset())
            other = reference_rows(tmp_path, path, JSON, {}, schema, stated=frozenset())
            if one != other or (value.startswith('"') and one != REFUSED):
                differ[kind, value] = (one, other)
    assert differ == {}
    lists = {"[1, 2]": [[1, 2]], "[]": [[]], "[null]": [[None]], "null": [None], "[5.0]": [[5]]}
    for value, found in {**lists, '["1"]': None, '"[1]"': None, "[true]": None, "[1.5]": None, "1": None}.items():
        (tmp_path / "list.json").write_text(f'{{"v": {value}}}\n')
        schema = Schema(columns=(Column(name="v", type=array(BIGINT)),))
        one = spark_rows(spark, tmp_path, "list.json", JSON, {}, schema, stated=frozenset())
        assert one == (REFUSED if found is None else [(each,) for each in found]), value


PATTERNS = {
    "dateFormat": ("date", "dd.MM.yyyy", ["31.01.2025", "1.1.2025", "31.02.2025", "31.01.2025 ", "2025-01-31"]),
    "timestampNTZFormat": (
        "timestamp",
        "dd/MM/yyyy HH:mm:ss.SSS",
        ["31/01/2025 10:00:00.5", "31/01/2025 10:00:00.123", "31/01/2025 10:00:00.1234", "31/01/2025 10:00:00"],
    ),
    "timestampFormat": (
        "timestamptz",
        "yyyyMMdd'T'HHmmssXXX",
        ["20250131T100000+02:00", "20250131T100000Z", "20250131T100000", "20251331T100000Z"],
    ),
}


def test_times_by_patterns(tmp_path, spark):
    differ = {}
    for option, (kind, pattern, texts) in PATTERNS.items():
        for number, text in enumerate(texts):
            content, name = f"v\n{text}\n".encode(), f"{option}{number}"
            one, other = both(spark, tmp_path, content, CSV, {option: pattern}, {"v": kind}, name=name)
            if one != other:
                differ[text] = (one, other)
    assert differ == {}
