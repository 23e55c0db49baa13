"""A code location of Dagster: the streams of the project beside this file, and what is made of their tables.

The shop, a small SQLite database, is made when this file is loaded for the first time.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
from pyiceberg.catalog.sql import SqlCatalog

from tidegate_dagster import (
    TidegateProject,
    TidegateResource,
    build_arrival_sensor,
    build_tidegate_schedules,
    tidegate_assets,
)

FOLDER = Path(__file__).parent
SHOP = FOLDER / "shop.db"
NEW_ORDER = "INSERT INTO orders (customer_id, amount) VALUES (?, ?)"


def make_shop() -> None:
    """Two customers with two orders, if there is no shop yet."""
    if SHOP.exists():
        return
    with closing(sqlite3.connect(SHOP)) as shop, shop:
        shop.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY NOT NULL, name TEXT)")
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, customer_id INT, amount INT)")
        shop.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "Ada"), (2, "Grace")])
        shop.executemany(NEW_ORDER, [(1, 20), (2, 22)])


make_shop()


@tidegate_assets(project=FOLDER)
def shop(context: dg.AssetExecutionContext, tidegate: TidegateResource) -> Any:
    """The streams of the project."""
    yield from tidegate.run(context)


@dg.asset(deps=["orders", "customers"])
def revenue() -> dg.MaterializeResult[None]:
    """Read from the lake with PyIceberg, without Spark."""
    lake = SqlCatalog("lake", uri=f"sqlite:///{FOLDER / '.tidegate' / 'catalog.db'}")
    orders = lake.load_table("shop.orders").scan().to_arrow()
    return dg.MaterializeResult(metadata={"orders": len(orders), "revenue": sum(orders["amount"].to_pylist())})


@dg.op
def add_order(context: dg.OpExecutionContext) -> None:
    """One more order in the shop, which the sensor notices."""
    with closing(sqlite3.connect(SHOP)) as database, database:
        database.execute(NEW_ORDER, (1, 10))
    context.log.info("an order was added")


@dg.job
def order_arrives() -> None:
    """Start it, then watch the sensor."""
    add_order()


schedules = build_tidegate_schedules(FOLDER)
defs = dg.Definitions(
    assets=[shop, revenue],
    jobs=[order_arrives],
    resources={"tidegate": TidegateResource(project_dir=str(FOLDER))},
    schedules=[each for each in schedules if isinstance(each, dg.ScheduleDefinition)],
    sensors=[build_arrival_sensor(TidegateProject(folder=FOLDER, select=("orders",)), running=True)],
)
