"""Other formats as the reference reads them: every type, JSON, patterns of times, folders as columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Schema,
    decimal,
)
from tidegate.core.slices import Everything, Files
from tidegate.errors import ConfigError, FileUnreadable
from tidegate.sources.shared.files.lines import located
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import FileFormat
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.reference.patterns import parser
from tidegate.sources.shared.reference.values import TextRules, of_arrow
from unit.sources.reference.files import answers, of, one

TYPES = {
    "id": BIGINT,
    "amount": decimal(12, 4),
    "paid": BOOLEAN,
    "day": DATE,
    "at": TIMESTAMP,
    "seen": TIMESTAMPTZ,
    "v": TEXT,
    "raw": BINARY,
}
ALL = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in TYPES.items()))
ROWS = [
    (1, Decimal("12.3450"), True, date(2025, 1, 31), datetime(2025, 1, 31, 12, 0, 0, 123456), 1, "a|~b", b"\x00\xff"),  # noqa: DTZ001
    (-(2**62), Decimal("-0.0001"), False, date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), -1, "", b""),  # noqa: DTZ001
    (None, None, None, None, None, None, None, None),
]
TEXTS = [
    "1|12.3450|1|2025-01-31|2025-01-31 12:00:00.123456|1970-01-01 00:00:00.000001|a~1~0b|00ff",
    f"{-(2**62)}|-0.0001|0|0001-01-01|9999-12-31 23:59:59.999999|1969-12-31 23:59:59.999999||",
    "|".join(["~N"] * 8),
]


def test_every_type_from_every_format(tmp_path):
    kinds = [pa.int64(), pa.decimal128(12, 4), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    arrow = [*kinds, pa.string(), pa.binary()]
    table = pa.table(
        [pa.array(values, kind) for values, kind in zip(zip(*ROWS, strict=True), arrow, strict=True)], [*TYPES]
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    orc.write_table(table.drop_columns(["at"]), tmp_path / "a.orc")
    logical = {"at": {"type": "long", "logicalType": "local-timestamp-micros"}, "raw": "bytes", "v": "string"}
    logical |= {"amount": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, "id": "long"}
    logical |= {"day": {"type": "int", "logicalType": "date"}, "paid": "boolean"}
    logical |= {"seen": {"type": "long", "logicalType": "timestamp-micros"}}
    fields = [{"name": name, "type": ["null", logical[name]]} for name in TYPES]
    seen = [
        datetime.fromtimestamp(0, UTC).replace(microsecond=1),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        None,
    ]
    records = [dict(zip(TYPES, row, strict=True)) | {"seen": at} for row, at in zip(ROWS, seen, strict=True)]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records, codec="deflate")
    texts = [
        {k: v if v is None else str(v) for k, v in each.items()} | {"id": each["id"], "paid": each["paid"]}
        for each in records
    ]
    for each, raw in zip(texts, ["AP8=", "", None], strict=True):
        each["raw"] = raw
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, texts)))
    (tmp_path / "b.json").write_text(json.dumps(texts, indent=1))
    wanted = Fingerprint.of_texts(TEXTS)
    for name in ("a.parquet", "a.avro", "a.json", "b.json"):
        form = name.partition(".")[2]
        assert answers(tmp_path, name, schema=ALL, form=form).fingerprint(Everything()) == wanted, name
    without = Schema(columns=tuple(column for column in ALL if column.name != "at"))
    short = Fingerprint.of_texts(
        "|".join(field for at, field in enumerate(text.split("|")) if at != 4).replace("0001-01-01", "0001-01-03")
        for text in TEXTS  # PyArrow names no calendar in ORC
    )
    assert answers(tmp_path, "a.orc", schema=without, form="orc").fingerprint(Everything()) == short
    moments = Schema(
        columns=tuple(Column(name=each.name, type=TIMESTAMPTZ) for each in ALL if each.name in ("at", "seen"))
    )
    old = answers(tmp_path, "old.parquet", schema=moments, form="parquet")
    assert old.fingerprint(Everything()) == of(
        *(tuple(None if f == "~N" else f for f in text.split("|")[4:6]) for text in TEXTS)
    )


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ('{"id": 1, "v": {"a": [1,  2.50]}}', [("1", '{"a":[1,2.50]}')]),
        ('{"id": 1, "v": 1.10}\n\n{"id": 12345678901234567}', [("1", "1.10"), ("12345678901234567", None)]),
        ('[{"id": 1, "v": {"a": [1, 2.50]}},\n {"v": null, "id": 2}]', [("1", '{"a":[1,2.50]}'), ("2", None)]),
        ('\ufeff{"id":1,"v":"a\\u2028b"}\r\n{"id":2,"v":"\u2028"}', [("1", "a\u2028b"), ("2", "\u2028")]),
        ("", []),
        ("[]", []),
    ],
)
def test_json(tmp_path, lines, rows):
    assert one(tmp_path, lines.encode(), "a.json", form="json") == of(*rows)


@pytest.mark.parametrize(
    "lines",
    [
        '{"id":1}{"id":2}',
        '{"id":1} {"id":2}',
        '{"id":"x"}',
        '{"id":1.5}',
        '{"id":1,"id":1}',
        '{"id":1',
        '[{"id":1}',
        '[{"id":1}] 2',
        "1",
    ],
)
def test_json_that_is_not_one_object_a_line_is_refused(tmp_path, lines):
    with pytest.raises(FileUnreadable, match=r"a\.json"):
        one(tmp_path, lines.encode(), "a.json", form="json")


def test_values_that_do_not_fit_their_type_are_refused(tmp_path):
    for kind, texts in (
        (decimal(10, 2), ["1,5", "1.105", "1e400", "1.234,50", "99999999999"]),
        (TIMESTAMP, ["2025-01-01 00:00:00.1234567", "2025-01-01T00:00:00Z", "2025-02-30 00:00:00"]),
        (DATE, ["2025-13-01", "x", ""]),
        (BOOLEAN, ["2", "yes", ""]),
    ):
        schema = Schema(columns=(Column(name="v", type=kind),))
        for text in texts:
            with pytest.raises(FileUnreadable, match="column 'v'"):
                one(tmp_path, f'v\n"{text}"\n'.encode(), schema=schema)
            with pytest.raises(FileUnreadable, match="column 'v'"):
                one(tmp_path, json.dumps({"v": text}).encode(), "a.json", form="json", schema=schema)


def test_times_by_a_pattern_and_a_zone(tmp_path):
    schema = Schema(columns=(Column(name="d", type=DATE), Column(name="t", type=TIMESTAMPTZ)))
    content = b"d,t\n31.01.2025,31/1/25 11:05 PM\n"
    options = {"dateFormat": "dd.MM.yyyy", "timestampFormat": "dd/M/yy hh:mm a", "timeZone": "Europe/Berlin"}
    assert one(tmp_path, content, schema=schema, **options) == of(("2025-01-31", "2025-01-31 22:05:00.000000"))
    assert parser("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")("2025-01-02T03:04:05.678+01:00").isoformat(" ") == (
        "2025-01-02 03:04:05.678000+01:00"
    )
    with pytest.raises(ConfigError, match="EEEE"):
        parser("EEEE, d MMM yyyy")


def test_folders_and_paths_are_columns(tmp_path):
    for folder, key in (("day=2025-01-01", 1), ("day=__HIVE_DEFAULT_PARTITION__", 2), ("day=a%20b", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(f"id\n{key}\n")
    names = ("id", "day", "file")
    schema = Schema(columns=tuple(Column(name=name, type=TEXT) for name in names))
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv"))
    found = answers(tmp_path, *paths, schema=schema, carrier="file", partitions=("day",))
    days = {"1": "2025-01-01", "2": None, "3": "a b"}
    wanted = [(key, days[key], path) for key, path in zip(("1", "2", "3"), paths, strict=True)]
    assert found.fingerprint(Everything()) == of(*wanted)
    assert found.fingerprint(Files(paths=(paths[0], "gone.csv"))) == of(wanted[0])


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        (BIGINT, "[10115, 5.0, -1e3, null]", ['"01067"', '"1"', "true", "[1]", '""']),
        (BOOLEAN, "[true, false, null]", ['"true"', '"1"', "0", "{}"]),
        (DOUBLE, "[1.5, 1, -0]", ['"NaN"', '"1.5"', "false"]),
        (decimal(20, 0), "[18446744073709551615]", ['"007"']),
        (TEXT, '["01067", 1, 1.50, true, [1]]', []),
    ],
    ids=str,
)
def test_a_value_of_json_is_of_the_kind_that_its_quotes_tell(tmp_path, kind, same, other):
    """A type that was inferred takes no value of which it would not have been; one that is stated does."""
    schema = Schema(columns=(Column(name="v", type=kind),))
    lines = "".join(f'{{"v": {json.dumps(each)}}}\n' for each in json.loads(same))
    (tmp_path / "same.json").write_text(lines)
    untyped = {"schema": schema, "form": "json", "stated": frozenset()}

    def count(name: str, **how: object) -> int:
        return sum(table.num_rows for table in answers(tmp_path, **{**untyped, **how}).rows.tables([name], ["v"]))

    assert count("same.json") == len(json.loads(same))
    for number, value in enumerate(other):
        (tmp_path / f"{number}.json").write_text(f'{lines}{{"v": {value}}}\n')
        with pytest.raises(FileUnreadable, match=r"'v'.*inferred") as refused:
            count(f"{number}.json")
        assert "`source: {columns: {v: text}}`" in refused.value.hint
        reader = Reader(store=folder_of(str(tmp_path)), form=FileFormat.JSON, options={}, stated=frozenset())
        found = located(refused.value, reader, f"{number}.json", schema)
        assert f"{number}.json, line {len(json.loads(same)) + 1}: the value of column 'v'" in found.message
    if kind == BIGINT:
        assert count("1.json", stated=frozenset({"v"})) == 5


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "zstd"])
def test_days_of_orc_are_julian_before_1582_where_the_file_names_no_calendar(tmp_path, compression):
    """As Spark reads them; the pairs are those of any almanac."""
    pairs = {"1582-10-14": "1582-10-04", "1582-10-15": "1582-10-15", "1500-03-11": "1500-03-01"}
    pairs |= {
        "1500-03-10": "1500-03-01",
        "1500-03-09": "1500-02-28",
        "0001-01-01": "0001-01-03",
        "2024-02-29": "2024-02-29",
    }
    days = [*map(date.fromisoformat, pairs), None]
    table = pa.table({"d": days} | {f"a column with a long name {n}": pa.nulls(8, pa.int64()) for n in range(200)})
    orc.write_table(table, tmp_path / "a.orc", compression=compression)
    schema = Schema(columns=(Column(name="d", type=DATE),))
    assert answers(tmp_path, "a.orc", schema=schema, form="orc").fingerprint(Everything()) == of(
        *((day,) for day in pairs.values()), (None,)
    )


def test_times_in_nested_values_keep_every_digit(tmp_path):
    moments = [datetime(2020, 1, 1, 1, 1, 1, 123456, UTC), datetime(1, 1, 1, tzinfo=UTC)]
    naive = [each.replace(tzinfo=None) for each in moments]
    kind = pa.struct([("at", pa.timestamp("us", "UTC")), ("seen", pa.timestamp("us")), ("day", pa.date32())])
    values = [{"at": at, "seen": seen, "day": at.date()} for at, seen in zip(moments, naive, strict=True)]
    parquet.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "a.parquet")
    schema = Schema(columns=(Column(name="x", type=JSON),))
    texts = [
        '{"at":"2020-01-01T01:01:01.123456Z","seen":"2020-01-01T01:01:01.123456","day":"2020-01-01"}',
        '{"at":"0001-01-01T00:00:00.000000Z","seen":"0001-01-01T00:00:00.000000","day":"0001-01-01"}',
    ]
    found = answers(tmp_path, "a.parquet", schema=schema, form="parquet").fingerprint(Everything())
    assert found == of(*((text,) for text in texts))


def test_maps_of_avro_have_an_order(tmp_path):
    """Avro has none, and Spark gives their entries in that of a hash."""
    maps = {"type": "map", "values": ["null", {"type": "map", "values": "long"}]}
    kind = {"type": "record", "name": "deep", "fields": [{"name": "m", "type": {"type": "array", "items": maps}}]}
    fields = [{"name": "x", "type": {"type": "map", "values": "long"}}, {"name": "y", "type": ["null", kind]}]
    rows = [
        {"x": {"name": 1, "id": 2, "zip": 3, "é": 4, "Z": 5}, "y": {"m": [{"b": {"d": 1, "c": 2}, "a": None}, {}]}},
        {"x": {}, "y": None},
    ]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)
    schema = Schema(columns=(Column(name="x", type=JSON), Column(name="y", type=JSON)))
    assert answers(tmp_path, "a.avro", schema=schema, form="avro").fingerprint(Everything()) == of(
        ('{"Z":5,"id":2,"name":1,"zip":3,"é":4}', '{"m":[{"a":null,"b":{"c":2,"d":1}},{}]}'), ("{}", None)
    )


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        (pa.array([2.0, -(2.0**63), None]), BIGINT, [2, -(2**63), None]),
        (pa.array([2.5]), BIGINT, None),
        (pa.array([2.0**63]), BIGINT, None),
        (pa.array([float("nan")]), BIGINT, None),
        (pa.array([12.34, 0.1]), decimal(9, 2), [Decimal("12.34"), Decimal("0.10")]),
        (pa.array([12.345]), decimal(9, 2), None),
        (pa.array([1e15]), decimal(38, 2), None),
        (pa.array([float("inf")]), decimal(38, 2), None),
        (pa.array([2**53, 2**60]), DOUBLE, [2.0**53, 2.0**60]),
        (pa.array([2**53 + 1]), DOUBLE, None),
        (pa.array([Decimal("0.10")]), DOUBLE, [0.1]),
        (pa.array([Decimal("1.00")]), BIGINT, [1]),
        (pa.array([Decimal("1.50")]), BIGINT, None),
        (pa.array([Decimal("1.5000")], pa.decimal128(12, 4)), decimal(9, 2), [Decimal("1.50")]),
        (pa.array([1_000_000], pa.time64("ns")), TEXT, ["00:00:00.001000"]),
        (pa.array([1_001], pa.time64("ns")), TEXT, None),
        (pa.array([1_001], pa.timestamp("ns")), TIMESTAMP, None),
        (pa.array([7], pa.duration("s")), BIGINT, [7]),
    ],
)
def test_values_of_other_types_are_the_same_or_refused(values, kind, wanted):
    """As Spark reads them, see `types.exactly`."""
    if wanted is not None:
        assert of_arrow(values, kind, TextRules()).to_pylist() == wanted
        return
    with pytest.raises((ValueError, ArithmeticError)):
        of_arrow(values, kind, TextRules())
