"""What Spark reads of a log in files, another reader has to read as well."""

from __future__ import annotations

from datetime import datetime

import pytest

from matrix.files import FORMATS
from tidegate.core.fingerprint import Fingerprint
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.rows import Rows
from tidegate.sources.change_log.files import FileLogOptions, opened
from tidegate.sources.change_log.log import LogProbe
from tidegate.spark.session import Sessions

pytestmark = pytest.mark.spark
TYPES = {
    "operation": "text",
    "sequence": "bigint",
    "id": "bigint",
    "name": "text",
    "price": "decimal(10,2)",
    "updated_at": "timestamp",
}


def event(number, name):
    at = datetime.fromisoformat("2025-01-01 12:00:00.123456")
    return {"operation": "I", "sequence": number, "id": number, "name": name, "price": None, "updated_at": at}


def both(spark, path, *, values=True, **options):
    """What the two readers find in every file that there is."""
    with opened(FileLogOptions(path=str(path), **options), Sessions(borrowed=spark)) as log:
        parts = log.after(None, most=None).slices
        return LogProbe(log, None).read_twice(spark, parts, values=values)


def test_values_are_compared_not_only_their_number(spark, tmp_path):
    """Of JSON; every load of the matrix is verified so, whatever its format."""
    seen = []
    for last in ('say "hi"', "C:\\dir\\"):
        FORMATS["json"](tmp_path / "1.json", [event(1, "née 🚲"), event(2, None), event(3, last)], TYPES)
        mine, theirs = both(spark, tmp_path / "*.json", envelope=Rows(), columns=TYPES)
        assert (mine, mine.rows) == (theirs, 3)
        seen.append(mine)
    assert seen[0] != seen[1]
    counted = both(spark, tmp_path / "*.json", envelope=Rows(), values=False, columns=TYPES)
    assert counted == (Fingerprint(rows=3),) * 2


def test_messages_and_records_that_cannot_be_taken_are_counted(spark, tmp_path):
    (tmp_path / "1.json").write_bytes(b'{"op": "c"}\n\n \r\n{"op": "u"}\r{"op": "d"}')
    found = both(spark, tmp_path / "*.json", envelope=Debezium(columns={"id": "bigint"}))
    assert found == (Fingerprint(rows=3),) * 2
    (tmp_path / "1.json").write_text('{"operation": "I", "sequence": 1, "id": "x"}\n', encoding="utf-8")
    assert both(spark, tmp_path / "*.json", envelope=Rows(), columns=TYPES) == (Fingerprint(rows=1),) * 2


@pytest.mark.parametrize(("verify", "code"), [("moved", "file_unreadable"), ("none", None)])
def test_a_load_asks_the_other_reader(log_of, verify, code):
    """Which knows no time of ORC that nanoseconds since 1970 cannot tell; Spark does."""
    log = log_of(source={"path": "events/*.orc", "envelope": "rows"}, verify=verify)
    old = event(1, "a") | {"updated_at": datetime.fromisoformat("1500-01-01")}
    FORMATS["orc"](log.folder / "1.orc", [old], TYPES)
    outcome = log.run()
    assert (outcome.error and outcome.error.code) == code
    assert outcome.rows_inserted == (0 if code else 1)
