"""A fault that a person has to repair is named, with the commands that repair it; each of these is run here."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from integration.engine.conftest import on_both

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def orders(bench):
    """A stream of fifty rows, whose table has one file."""
    bench.sql("create table t (id integer primary key, name text not null)")
    bench.sql(*(f"insert into t values ({n}, 'n{n}')" for n in range(50)))
    bench.write("checksum")
    bench.loaded()
    return bench


def files(bench):
    return set(bench.location.rglob("*.parquet"))


def spoiled(path):
    """Of the same size, with a beginning and an end that look well."""
    content = path.read_bytes()
    path.write_bytes(b"PAR1" + b"\0" * (len(content) - 200) + content[-196:])


def named(bench, damage, file, what):
    """The damage is found by the next load, which has something to do, and by a comparison."""
    damage(file)
    Path(file.parent, f".{file.name}.crc").unlink(missing_ok=True)
    bench.sql(f"update t set name = name || '{what[0]}' where id = 7")
    error = bench.run().error
    assert (error.code, error.exit_code) == ("table_damaged", 4), error
    assert all(part in error.message for part in ("lake.out.t", file.name, what)), error.message
    verified = bench.verify(level="rows").error
    assert (verified.code, verified.message) == ("table_damaged", error.message)


@on_both
def test_the_file_is_named_and_every_way_out_works(orders):
    (file,) = files(orders)
    content = file.read_bytes()
    named(orders, spoiled, file, "cannot be read")
    file.write_bytes(content)  # the file is put back
    orders.loaded()
    assert orders.rows("id", "name") == orders.source()

    before = files(orders)
    orders.sql("insert into t values (900, 'later')")
    orders.loaded()
    named(orders, Path.unlink, next(iter(files(orders) - before)), "is missing")
    with orders.project() as project:  # a version from before the file
        project.rollback("t", to=project.versions("t")[1].id)
    orders.loaded()
    assert orders.rows("id", "name") == orders.source()

    for file in files(orders):
        file.unlink()
    assert orders.run(full_refresh=True).error is None
    assert orders.rows("id", "name") == orders.source()


def test_a_catalog_that_another_process_holds_is_said_to_be_locked(orders):
    orders.sql("update t set name = 'new' where id = 7")
    holder = sqlite3.connect(orders.folder / ".tidegate" / "catalog.db")
    holder.execute("begin exclusive")
    try:
        _, message, _ = orders.refused()
    finally:
        holder.close()
    assert ("locked by another process" in message, "catalog.db" in message) == (True, True)
    orders.loaded()
