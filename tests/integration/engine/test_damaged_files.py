"""A damaged data file of a table is named, with the commands that repair it; each of these commands is run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.engine.test_faults_named import stream
from support.lake import delta_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.slow]

DAMAGES = {
    "is missing": lambda path: path.unlink(),
    "bytes, but was written with": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "was overwritten": lambda path: path.write_bytes(b"x" * path.stat().st_size),
    "cannot be read": lambda path: path.write_bytes(
        b"PAR1" + b"\0" * (path.stat().st_size - 200) + path.read_bytes()[-196:]
    ),
}


class Damaged:
    """A stream of fifty rows, whose table has one file."""

    def __init__(self, kind, spark, tmp_path):
        self.kind, self.spark = kind, spark
        self.workspace, self.shop = stream(kind, tmp_path)
        assert self.run().error is None
        (self.file,) = (tmp_path / "warehouse" / "shop" / "orders").rglob("*.parquet")
        self.content = self.file.read_bytes()

    def run(self, **options):
        return self.workspace.run(spark=self.spark, **options).streams[0]

    def damage(self, how):
        how(self.file)
        Path(self.file.parent, f".{self.file.name}.crc").unlink(missing_ok=True)
        self.shop.sql("update orders set name = 'new' where id = 7")

    def check(self):
        assert self.run().error is None
        held = (
            delta_rows(str(self.workspace.folder / "warehouse" / "shop" / "orders"))
            if self.kind == "delta"
            else self.workspace.rows("shop.orders")
        )
        assert sorted((row["id"], row["name"]) for row in held) == self.shop.rows("select id, name from orders")


@pytest.fixture(params=["iceberg", "delta"])
def damaged(request, spark, tmp_path):
    return Damaged(request.param, spark, tmp_path)


@pytest.mark.parametrize("what", DAMAGES)
def test_the_file_is_named_and_every_way_out_works(damaged, what):
    damaged.damage(DAMAGES[what])
    error = damaged.run().error
    assert (error.code, error.exit_code) == ("table_damaged", 4), error
    assert "lake.shop.orders" in error.message
    assert damaged.file.name in error.message
    assert what in error.message
    with damaged.workspace.project(damaged.spark) as project:
        verified = project.verify(level="rows").streams[0].error
    assert (verified.code, verified.message) == ("table_damaged", error.message)
    kept = damaged.file.read_bytes() if damaged.file.exists() else None
    damaged.file.write_bytes(damaged.content)
    damaged.check()
    if kept is None:
        damaged.file.unlink(missing_ok=True)
    elif damaged.file.exists():
        damaged.file.write_bytes(kept)
    assert damaged.run(full_refresh=True).error is None
    damaged.check()


def test_a_version_from_before_the_file_is_a_way_out(damaged):
    before = {*damaged.file.parents[1].rglob("*.parquet")}
    damaged.shop.sql("insert into orders values (900, 'later')")
    assert damaged.run().error is None
    damaged.file = next(iter({*damaged.file.parents[1].rglob("*.parquet")} - before))
    damaged.damage(Path.unlink)
    error = damaged.run().error
    assert (error.code, damaged.file.name in error.message) == ("table_damaged", True), error
    with damaged.workspace.project(damaged.spark) as project:
        project.rollback("orders", to=project.versions("orders")[1].id)
    damaged.check()
