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
