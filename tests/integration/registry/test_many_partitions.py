"""More partitions than one statement of either database may carry values."""

import pytest

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Entry, Ledger
from unit.registry.loads import UID

METHOD = {"type": "by_integer", "column_name": "id", "modulus": 1}
MANY = 70_000
pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/r.db" if request.param == "sqlite" else request.getfixturevalue("pg_url")


def ledger(labels):
    return Ledger(entries={str(label): Entry(fingerprint=Fingerprint(rows=1)) for label in labels})


def test_so_many_partitions(registry):
    many = ledger(range(MANY))
    registry.keep_ledger(UID, METHOD, many)
    with registry.task(UID, "load_partition", groups=list(many.entries)):
        pass
    assert registry.ledger(UID) == many
    registry.keep_ledger(UID, METHOD, ledger(["last"]))
    assert registry.ledger(UID) == ledger(["last"])
