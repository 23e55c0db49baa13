"""What the code of a dlt resource does to its process does not become Tidegate's."""

import pytest

pytest.importorskip("dlt")

from tidegate.errors import SourceError
from tidegate.sources._api.rows import table_of
from tidegate.sources.dlt import Dlt

RESOURCE = """
import dlt

@dlt.resource
def rows():
    yield {"id": 1}
    leave()
"""
LEAVING = {
    "in the resource": RESOURCE,
    "while it is made": "def rows():\n    leave()\n",
    "while it is imported": "leave()\n",
    "in a thread": RESOURCE.replace("@dlt.resource", "@dlt.resource(parallelized=True)"),
}


@pytest.mark.parametrize("code", ["", "0", "'no token'"])
@pytest.mark.parametrize("place", LEAVING)
def test_a_resource_that_wants_to_end_the_process_ends_the_load(tmp_path, place, code):
    name = f"leaving_{abs(hash((place, code)))}"
    (tmp_path / f"{name}.py").write_text(f"import sys\ndef leave():\n    sys.exit({code})\n{LEAVING[place]}")
    source = Dlt(dlt=f"{name}:rows", stream="s", folder=tmp_path)
    with pytest.raises(SourceError, match=r"wanted to end the process \(sys\.exit\)"):
        table_of(source.extraction(None).pages(), {})


INCREMENTAL = """
import datetime
import dlt
import pyarrow as pa

AT = [datetime.datetime({years}, 1, 1, tzinfo=datetime.timezone.utc) for {years} in (2025, 2099, 2026)]

@dlt.resource
def records(at=dlt.sources.incremental("at")):
    yield [{"id": number, "at": at} for number, at in enumerate(AT)]

@dlt.resource
def tables(at=dlt.sources.incremental("at")):
    yield pa.table({"id": [1, 2, 3], "at": AT})

@dlt.source
def several():
    return records, tables

kept = several()
""".replace("{years}", "year")


@pytest.mark.parametrize(("name", "resource"), [("records", None), ("several", "records"), ("kept", "records")])
def test_a_record_with_a_time_to_come_waits_and_a_table_of_arrow_with_one_is_refused(tmp_path, name, resource):
    (tmp_path / "times_to_come.py").write_text(INCREMENTAL)
    source = Dlt(dlt=f"times_to_come:{name}", resource=resource, stream="s", folder=tmp_path)
    state = None
    for rows in ([0, 2], []):
        extraction = source.extraction(state)
        found = table_of(extraction.pages(), {})
        assert (found["id"].to_pylist() if rows else len(found), extraction.ahead) == (rows or 0, 1)
        state = extraction.state()
    whole = Dlt(dlt=f"times_to_come:{name}", resource=resource, stream="s", folder=tmp_path, increments=False)
    assert len(table_of(whole.extraction(state).pages(), {})) == 3
    with pytest.raises(SourceError, match="cursor 'at' is ahead of the clock"):
        table_of(Dlt(dlt="times_to_come:tables", stream="s", folder=tmp_path).extraction(None).pages(), {})
