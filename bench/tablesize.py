"""One partition reloaded in a small and in a ten times larger table: the larger one may cost a little more at most."""

from __future__ import annotations

from pathlib import Path

from bench import ours, plain
from bench.partitions import stream
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders

FACTOR = 10
MOST = 1.3
CHANGED = 500


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """The whole table against the last tenth of it: the last day of both is the same and changes in every round."""
    orders.ask("CREATE INDEX IF NOT EXISTS orders_created ON orders (created_at)")
    newest = orders.rows - orders.rows // FACTOR
    orders.ask(f"CREATE OR REPLACE VIEW few AS SELECT * FROM orders WHERE id > {newest}")
    day = str(orders.ask("SELECT to_char(max(created_at), 'YYYYMMDD') FROM orders")[0][0])
    small = {"source": {"connection": "shop", "table": "few"}, "target": "lake.bench.few"}
    whole = {"large": stream(), "small": {**stream(), **small}}
    late = {"large": stream(lookback=day), "small": {**stream(lookback=day), **small}}
    spark = plain.session(work)
    with ours.borrowed(ours.project(orders, whole), work / "ours", spark) as first:
        for name, rows in (("large", orders.rows), ("small", orders.rows - newest)):
            ours.load(first, name, rows)
    made = ours.borrowed(ours.project(orders, late), work / "ours", spark)
    sight = ours.catalogs(made, spark)

    def reload(name: str) -> None:
        (outcome,) = made.run(name).streams
        if outcome.error is not None or outcome.slices_changed != 1:
            raise WrongResult(f"{name}: {outcome}")

    contenders = [
        Contender(
            name="large table",
            run=lambda _: reload("large"),
            check=lambda _: ours.must_equal(sight, "lake.bench.orders", orders.sums()),
        ),
        Contender(name="small table", run=lambda _: reload("small"), check=lambda _: None, goal=1 / MOST),
    ]
    about = {"rows": orders.rows, "rows of the small table": orders.rows - newest}
    result = compare(
        "tablesize",
        contenders,
        pairs=pairs,
        about=about,
        before=lambda number: orders.change(orders.rows - (number + 1) * CHANGED, CHANGED),
    )
    made.close()
    spark.stop()
    return result
