"""CSV as the reference reads it: what RFC 4180 says, other conventions, what is no table."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import random

import pyarrow as pa
import pytest

from tidegate.core.schema import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMPTZ, decimal
from tidegate.core.slices import Everything
from tidegate.errors import ConfigError, FileUnreadable
from tidegate.sources.shared.reference.values import TextRules, of_untyped
from unit.sources.reference.files import answers, of, one


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
        (
            b'id,v\n1,NULL\n2,n/a\n3,""\n4,x\n',
            {"null_values": '["", "NULL", "n/a"]'},
            [("1", None), ("2", None), ("3", None), ("4", "x")],
        ),
        (b"sep=;\r\nid;v\r\n1;a,b\r\n", {}, [("1", "a,b")]),
        ("sep=\t\r\nid\tv\r\n1\té\r\n".encode("utf-16"), {"encoding": "UTF-16"}, [("1", "é")]),
        ("\ufeffid,v\n1,é\n".encode("utf-16-le"), {"encoding": "UTF-16LE"}, [("1", "é")]),
        (
            "id|v\n1|ポ表\n".encode("shift_jis"),
            {"encoding": "Shift_JIS", "sep": "|"},
            [("1", "ポ表")],
        ),
        (
            b'by,"us\n\nid,v\n1,a\n2,"b\nc"\nrows,2\nend',
            {"skip_rows": "2", "skip_footer": "2"},
            [("1", "a"), ("2", "b\nc")],
        ),
        (b"x\rid,v\r1,a\r", {"skip_rows": "1"}, [("1", "a")]),
        (b"id,v\n1,a\nsum,1\n", {"skip_footer": "1", "comment": "#"}, [("1", "a")]),
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


@pytest.mark.parametrize(
    ("kind", "shown", "others"),
    [
        (BIGINT, ["10115", "-7", "0", str(2**63 - 1)], ["01067", "+49", "1e3", "5.0", "-", str(2**63)]),
        (decimal(38, 0), ["10115", "9" * 38], ["01067", "+49", "1e3"]),
        (DOUBLE, ["1", "-1.5", ".5", "1e3", "1.50", "0.1234567890123456"], ["01.5", "+1", "NaN", "1234567890123456"]),
        (DOUBLE, ["0.1"], ["0.12345678901234568901", "12345678901234567.9", "1e400"]),
        (BOOLEAN, ["true", "False"], ["1", "0", "t", "f"]),
        (DATE, ["2025-01-05"], ["2025-01-05 10:00"]),
        (TIMESTAMP, ["2025-01-05", "2025-01-05 10:00"], ["2025-01-05 10:00Z"]),
        (TIMESTAMPTZ, ["2025-01-05 10:00Z", "2025-01-05T10:00:00.5+02"], ["2025-01-05", "2025-01-05 10:00"]),
    ],
)
def test_a_type_that_nobody_stated_takes_only_what_shows_it(kind, shown, others):
    """Which type a column gets must not depend on which values come first."""
    assert of_untyped(pa.array([*shown, None]), kind, TextRules()).null_count == 1
    for text in others:
        with pytest.raises((ValueError, ArithmeticError, LookupError)):
            of_untyped(pa.array([text]), kind, TextRules())


def test_numbers_with_other_marks_show_their_type_as_well():
    german = TextRules(decimal=",", thousands=".")
    assert of_untyped(pa.array(["1.234", None]), BIGINT, german).to_pylist() == [1234, None]
    assert of_untyped(pa.array(["1.234,5"]), DOUBLE, german).to_pylist() == [1234.5]
    with pytest.raises(ValueError, match="would change"):
        of_untyped(pa.array(["01.234"]), BIGINT, german)


def test_a_column_of_csv_whose_type_is_not_stated_is_read_by_that_rule(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,v\n01067,x\n")
    assert answers(tmp_path, "a.csv", stated=frozenset({"id"})).count(Everything()) == 1
    with pytest.raises(FileUnreadable, match="column 'id' has a value that is not written as a bigint"):
        answers(tmp_path, "a.csv", stated=frozenset({"v"})).fingerprint(Everything())
