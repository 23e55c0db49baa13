"""A table proven equal to its source, and ten wrong rows mended: against reladiff between two PostgreSQL tables."""

from __future__ import annotations

import statistics
import subprocess
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, plain
from bench.rounds import OUT, Contender, Result, WrongResult, compare
from bench.source import COLUMNS, Orders

if TYPE_CHECKING:
    from tidegate.api import Project

RELADIFF = "reladiff[postgresql]==0.6.0"
THREADS = 4
WRONG = 10
MOST_FOR_MENDING = 1.5
# Times itself, without the start of Python and its imports.
SCRIPT = """
import sys, time
import reladiff
url, columns, threads = sys.argv[1], tuple(sys.argv[2].split(",")), int(sys.argv[3])
url = url.replace("postgres@", "postgres:none@")
one, two = (reladiff.connect_to_table(url, name, "id", thread_count=threads) for name in ("orders", "orders_copy"))
began = time.monotonic()
found = reladiff.diff_tables(one, two, key_columns=("id",), extra_columns=columns, max_threadpool_size=threads)
print(len(list(found)), time.monotonic() - began)
"""


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """Equal sides in turn with reladiff; then ten rows are made wrong in the table before every round."""
    orders.ask("CREATE TABLE orders_copy AS SELECT * FROM orders")
    orders.ask("ALTER TABLE orders_copy ADD PRIMARY KEY (id)")
    orders.ask("VACUUM ANALYZE orders_copy")
    python = _reladiff()
    spark = plain.session(work)
    made = ours.borrowed(ours.project(orders, {"orders": ours.stream(verify="counts")}), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    ours.load(made, "orders", orders.rows)
    peers: list[float] = []

    def theirs(_: int) -> None:
        command = [str(python), "-c", SCRIPT, orders.url, ",".join(COLUMNS[1:]), str(THREADS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode or done.stdout.split()[0] != "0":
            raise WrongResult(f"reladiff: {done.stdout[-200:]} {done.stderr[-500:]}")
        peers.append(float(done.stdout.split()[1]))

    peer = f"reladiff, {THREADS} threads"
    contenders = [
        Contender(name="tidegate verify", run=lambda _: _verify(made, mended=0), check=lambda _: None),
        Contender(name=peer, run=theirs, check=lambda _: None, goal=1 / 2.5),
    ]
    about = {"rows": orders.rows, "columns": len(COLUMNS), "level": "checksum"}
    result = compare("verify", contenders, pairs=pairs, about=about)
    # By its own clock: the start of its process is none of its work.
    result.seconds[peer] = peers[1:]
    mending = []
    for _ in range(pairs):
        ids = ", ".join(str(7 + number * (orders.rows // WRONG)) for number in range(WRONG))
        sight.sql(f"UPDATE lake.bench.orders SET note = 'wrong' WHERE id IN ({ids})")
        began = time.monotonic()
        _verify(made, mended=WRONG)
        mending.append(time.monotonic() - began)
    ours.must_equal(sight, "lake.bench.orders", orders.sums())
    share = statistics.median(mending) / statistics.median(result.seconds[result.ours])
    result.extra["seconds to find and mend ten rows"] = [round(seconds, 2) for seconds in mending]
    result.extra["of the time of finding equal"] = f"{share:.2f}, goal at most {MOST_FOR_MENDING}"
    result.too_much = share > MOST_FOR_MENDING
    made.close()
    spark.stop()
    return result


def _verify(made: Project, *, mended: int) -> None:
    (found,) = made.verify("orders", level="checksum", repair=bool(mended)).streams
    if not found.equal or found.repaired_rows != mended:
        raise WrongResult(f"tidegate: {found}")


def _reladiff() -> Path:
    """The Python of an environment of its own, made on first use."""
    folder = OUT / "reladiff"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", RELADIFF], check=True, timeout=600)
    return python
