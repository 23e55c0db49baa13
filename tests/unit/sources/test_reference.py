"""The reader that verifies files, against values that are written down here and Python's own csv."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Period, Periods, Prefixes, Ranges, Steps, Whole
from tidegate.core.schema import BIGINT, BINARY, BOOLEAN, DATE, TEXT, TIMESTAMP, TIMESTAMPTZ, Column, Schema, decimal
from tidegate.core.slices import Everything, Files, Keys, Partition, Range
from tidegate.errors import ConfigError, FileUnreadable
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.reference import Answers, FileRows
from tidegate.sources.shared.reference.patterns import parser

TWO = Schema(columns=(Column(name="id", type=BIGINT), Column(name="v", type=TEXT)))
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


def answers(folder: Path, *paths: str, schema: Schema = TWO, form: str = "csv", **options: str) -> Answers:
    names = {name: options.pop(name) for name in ("carrier", "partitions") if name in options}
    rows = FileRows(store=folder_of(str(folder)), form=form, options=options, schema=schema, **names)
    return Answers(rows=rows, paths=paths)


def of(*rows: tuple[str | None, ...]) -> Fingerprint:
    return Fingerprint.of_texts(row_text(row) for row in rows)


def written(folder: Path, content: bytes, name: str = "a.csv") -> str:
    (folder / name).write_bytes(content)
    return name


def one(tmp_path: Path, content: bytes, name: str = "a.csv", **options: str) -> Fingerprint:
    return answers(tmp_path, written(tmp_path, content, name), **options).fingerprint(Everything())


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'id,v\n1,"say ""hi"""\n', [("1", 'say "hi"')]),
        (b'id,v\n1,x\n2,"C:\\dir\\"\n3,"a""b"\n4,y\n', [("1", "x"), ("2", "C:\\dir\\"), ("3", 'a"b'), ("4", "y")]),
        (b"\xef\xbb\xbfid,v\r\n1,a\r\n2,b", [("1", "a"), ("2", "b")]),
        (b"id,v\n1,a\r\n2,b\r\n", [("1", "a"), ("2", "b")]),
        (b'id,v\n1,"a\r\nb"\n2,"c\n\nd"\n', [("1", "a\r\nb"), ("2", "c\n\nd")]),
        (b'id,v\n1,\n2,""\n', [("1", None), ("2", "")]),
        (b"id,v\n", []),
        (b"", []),
        (b"\n\nid,v\n\n1, a \n", [("1", " a ")]),
        ("id,v\n1,é\n".encode(), [("1", "é")]),
        (b"v,id,other\na,1,zzz\n", [("1", "a")]),
        (b"id\n1\n", [("1", None)]),
    ],
)
def test_csv_is_what_rfc_4180_says(tmp_path, content, rows):
    assert one(tmp_path, content) == of(*rows)


@pytest.mark.parametrize(
    ("content", "options", "rows"),
    [
        ("id;v\n1;é\n".encode("latin1"), {"sep": ";", "encoding": "latin1"}, [("1", "é")]),
        ("id,v\n1,é\n".encode("utf-16"), {"encoding": "UTF-16"}, [("1", "é")]),
        (b"1\ta\n", {"delimiter": "\\t", "header": "false"}, [("1", "a")]),
        (b"id||v\n1||a|b\n#2||c\n", {"sep": "||", "comment": "#"}, [("1", "a|b")]),
        (b'id,v\n1,"a\\"b"\n2,"\\\\"\n', {"escape": "\\"}, [("1", 'a"b'), ("2", "\\")]),
        (b"id,v\n1,'a,''b'\n", {"quote": "'"}, [("1", "a,'b")]),
        (b'id,v\n1,"a\n2,b\n', {"quote": ""}, [("1", '"a'), ("2", "b")]),
        (b'id,v\n1,NA\n2,"NA"\n3,\n4,""\n', {"nullValue": "NA"}, [("1", None), ("2", None), ("3", None), ("4", "")]),
    ],
)
def test_csv_by_another_convention(tmp_path, content, options, rows):
    assert one(tmp_path, content, **options) == of(*rows)


@pytest.mark.parametrize(
    "content",
    [
        b"id,v\n1\n",
        b"id,v\n1,a,b\n",
        b'id,v\n1,"a\n',
        b"id,v\n1,\xff\n",
        b"id,v\none,a\n",
        b'id,v\n"",a\n',
        b"id,v\n1.5,a\n",
        b"id,v\n9223372036854775808,a\n",
        b"id,id\n1,2\n",
    ],
)
def test_csv_that_is_no_table_is_refused_by_name_and_without_a_value(tmp_path, content):
    with pytest.raises(FileUnreadable, match=r"a\.csv") as caught:
        one(tmp_path, content)
    assert "one" not in caught.value.message.replace("none", "")


def test_what_only_spark_knows_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="locale_of_rows"):
        one(tmp_path, b"id,v\n", locale_of_rows="true")


@pytest.mark.parametrize("seed", range(20))
def test_csv_reads_as_pythons_own(tmp_path, seed):
    """Random values, written by Python's csv and read by it; what is not quoted and empty is NULL."""
    chance = random.Random(seed)
    values = [str(n) for n in range(3)] + ['"', ",", "\n", "\r\n", "\\", "|", "~", " ", "é", "a", "'", "\u2028", "\t"]
    rows = [(n, "".join(chance.choices(values, k=chance.randint(1, 6)))) for n in range(200)]
    text = io.StringIO()
    csv.writer(text, lineterminator=chance.choice(["\n", "\r\n"])).writerows([("id", "v"), *rows])
    read = [(row["id"], row["v"]) for row in csv.DictReader(io.StringIO(text.getvalue(), newline=""))]
    assert read == [(str(n), v) for n, v in rows]
    assert one(tmp_path, text.getvalue().encode()) == of(*read)
    assert one(tmp_path, text.getvalue().encode(), comment="\x01") == of(*read)  # by the parser of its own


def test_a_row_longer_than_a_block(tmp_path):
    long = "x\n" * 5_000_000
    rows = [("1", "a"), ("2", long), ("3", "c")]
    content = "id,v\n" + "".join(f'{key},"{value}"\n' for key, value in rows)
    assert one(tmp_path, content.encode()) == of(*rows)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", None)])
def test_packed_texts(tmp_path, suffix, pack):
    content = b"id,v\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(50_000))
    packed = pack(content) if pack else pa.compress(content, "zstd", asbytes=True)
    wanted = of(*((str(n), str(n)) for n in range(50_000)))
    assert one(tmp_path, packed, f"a.csv{suffix}") == wanted
    with pytest.raises(FileUnreadable):
        one(tmp_path, packed[: len(packed) // 2], f"a.csv{suffix}")


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
        "|".join(field for at, field in enumerate(text.split("|")) if at != 4) for text in TEXTS
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


@pytest.fixture
def some(tmp_path) -> tuple[Answers, list[tuple[int | None, str | None]]]:
    chance = random.Random(7)
    rows = [(n if n % 7 else None, chance.choice(["a", "ab", "b", "", "~", None])) for n in range(-500, 500)]
    text = "id,v\n" + "".join(
        f"{'' if k is None else k},{'' if v is None else chr(34) + v + chr(34)}\n" for k, v in rows
    )
    return answers(tmp_path, written(tmp_path, text.encode())), rows


def texts(row) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in row)


def test_slices_hold_the_rows_that_sql_would_find(some):
    found, rows = some
    for part, wanted in (
        (Range(cursor=("id",), after="-3", upto="10"), lambda k, _: k is not None and -3 < k <= 10),
        (Range(cursor=("id",), after=None, upto="10", nulls=True), lambda k, _: k is None or k <= 10),
        (Range(cursor=("id",), after=None, upto=None, nulls=True), lambda k, _: k is None),
        (Partition(column="id", label="", low="0", high="9", nulls=True), lambda k, _: k is None or 0 <= k < 9),
        (Partition(column="id", label=""), lambda k, _: k is None),
        (Partition(column="v", label="", prefix="a", length=1), lambda _, v: v is not None and v[:1] == "a"),
        (Partition(column="v", label="", prefix="", length=1), lambda _, v: v == ""),
        (Keys(columns=("id",), values=(("1",), ("5",), ("5000",))), lambda k, _: k in (1, 5)),
        (Keys(columns=("id", "v"), values=(("1", "a"), ("2", "ab"))), lambda k, v: (k, v) in ((1, "a"), (2, "ab"))),
    ):
        matching = [texts(row) for row in rows if wanted(*row)]
        assert found.fingerprint(part) == of(*matching), part
        assert found.count(part) == len(matching)


def test_partitions_add_up_and_are_where_sql_puts_them(some):
    found, rows = some
    grouping = Steps(column="id", width=100)
    wanted: dict[str, list] = {}
    for key, value in rows:
        wanted.setdefault("~N" if key is None else str(key // 100), []).append(texts((key, value)))
    parts = found.partitions(grouping, (Everything(),))
    assert {part.label: each for part, each in parts.items()} == {label: of(*each) for label, each in wanted.items()}
    ranges = found.partitions(Ranges(column="id", cuts=("0", "7")), (Everything(),))
    assert {part.label: each.rows for part, each in ranges.items()} == {
        "~N": sum(key is None for key, _ in rows),
        "<0": sum(key is not None and key < 0 for key, _ in rows),
        "0": 6,
        "7": sum(key is not None and key >= 7 for key, _ in rows),
    }
    prefixes = found.partitions(Prefixes(column="v", length=1), (Everything(),))
    assert {part.label for part in prefixes} == {"~N", "~0", "", "a", "b"}
    assert sum(found.partitions(Whole(), (Everything(),)).values(), Fingerprint()) == of(*map(texts, rows))
    only = [part for part in parts if part.label in ("0", "~N")]
    assert found.partitions(grouping, only) == {part: parts[part] for part in only}


def test_periods_by_the_calendar(tmp_path):
    schema = Schema(columns=(Column(name="t", type=TIMESTAMPTZ),))
    content = b"t\n2025-01-01T00:30:00+01:00\n2025-01-01T00:30:00Z\n\n"
    found = answers(tmp_path, written(tmp_path, content), schema=schema)
    parts = found.partitions(Periods(column="t", period=Period.DAY), (Everything(),))
    assert {part.label: each.rows for part, each in parts.items()} == {"20241231": 1, "20250101": 1}


@pytest.mark.parametrize("key", [("id",), ("v", "id"), ()])
def test_buckets_lead_to_the_rows(some, key):
    found, rows = some
    everything = of(*map(texts, rows))
    for keys in (False, True) if key else (False,):
        buckets = found.spread(Everything(), key, Buckets(count=16, keys=keys))
        assert sum(each.rows for each in buckets.values()) == len(rows)
        assert keys or sum(buckets.values(), Fingerprint()) == everything
    name = sorted(buckets)[3]
    finer = found.spread(Everything(), key, Buckets(count=64, within=(name,), among=16))
    assert sum(each.rows for each in finer.values()) == buckets[name].rows
    part = Range(cursor=("id",), after=None, upto="0", nulls=True)
    digests = found.digests(part, key, Buckets(count=16, within=(name,), among=16))
    assert len(digests) == buckets[name].rows
    at = {"id": 0, "v": 1}
    by = {hashlib.md5(row_text(texts(row)).encode()).hexdigest(): row for row in rows}
    for each in digests:
        row = by[each.digest]
        assert each.key == tuple(texts(row)[at[name]] for name in key)
        assert each.inside == (row[0] is None or row[0] <= 0)


def test_ranges_of_keys_count_and_sum(tmp_path):
    content = b"id,v\n" + b"".join(b"%d,x\n" % n for n in (-11, -10, -1, 0, 9, 10))
    found = answers(tmp_path, written(tmp_path, content)).spread(
        Everything(), ("id",), Buckets(count=1, keys=True, width=10)
    )
    assert {name: (each.rows, each.s0) for name, each in found.items()} == {"-10": (2, -1), "0": (3, 8), "10": (1, 0)}


def test_of_each_key_the_latest_row(tmp_path):
    chance = random.Random(3)
    schema = Schema(columns=tuple(Column(name=n, type=k) for n, k in (("id", BIGINT), ("t", TIMESTAMP), ("v", TEXT))))
    rows = [(chance.randint(0, 99), n if n % 5 else None, f"v{n}") for n in range(1_000)]
    chance.shuffle(rows)
    moment = "2025-01-01 00:00:00.{:06}"
    lines = [f"{k},{'' if t is None else moment.format(t)},{v}" for k, t, v in rows]
    names = [written(tmp_path, ("id,t,v\n" + "\n".join(lines[n::20])).encode(), f"{n}.csv") for n in range(20)]
    best: dict[int, tuple] = {}
    for row in rows:
        if row[0] not in best or (row[1] or -1) > (best[row[0]][1] or -1):
            best[row[0]] = row
    found, rule = answers(tmp_path, *names, schema=schema), Latest(key=("id",), order=("t",))
    wanted = of(*((str(k), t if t is None else moment.format(t), v) for k, t, v in best.values()))
    assert found.fingerprint(Everything(), latest=rule) == wanted
    assert found.count(Everything(), latest=rule) == len(best)
    spread = found.spread(Everything(), ("id",), Buckets(count=4), latest=rule)
    assert sum(spread.values(), Fingerprint()) == wanted
    told = found.digests(Everything(), ("id",), Buckets(count=4, within=tuple(spread), among=4), latest=rule)
    assert len(told) == len({each.key for each in told}) == len(best)


@dataclass(frozen=True, kw_only=True)
class Rule(Latest):
    """As the engine states it: a cursor of which the first value counts, and the keys that are asked for."""

    cursor: tuple[str, ...] = ()
    touched: tuple = ()


def test_of_keys_that_a_slice_touches_the_latest_row_by_a_cursor(tmp_path):
    schema = Schema(columns=tuple(Column(name=name, type=BIGINT) for name in ("id", "a", "b")))
    content = b"id,a,b\n1,5,1\n1,,7\n2,1,\n2,2,9\n3,,\n3,4,\n"
    found = answers(tmp_path, written(tmp_path, content), schema=schema)
    rule = Rule(key=("id",), order=(), cursor=("a", "b"))
    assert found.fingerprint(Everything(), latest=rule) == of(("1", None, "7"), ("2", "2", "9"), ("3", "4", None))
    touched = (Range(cursor=("a",), after=None, upto="1"), Range(cursor=("a",), after="3", upto="4"))
    rule = Rule(key=("id",), order=(), cursor=("a", "b"), touched=touched)
    assert found.fingerprint(Everything(), latest=rule) == of(("2", "2", "9"), ("3", "4", None))
    part = Range(cursor=("a", "b"), after=None, upto="5", nulls=True)
    told = found.digests(
        part, ("id",), Buckets(count=1, keys=True), latest=Rule(key=("id",), order=(), cursor=("a", "b"))
    )
    assert sorted((each.key, each.inside) for each in told) == [
        (("1",), False),
        (("1",), True),
        (("2",), True),
        (("3",), True),
    ]
