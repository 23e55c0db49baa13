"""The first hour with a database of nineteen awkward tables: what `init` writes is loaded as it stands, and proven."""

from __future__ import annotations

import pytest
import yaml

from newcomer.conftest import Newcomer, ordered

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(600)]

# Of types that fingerprints do not cover nobody can say that nothing changed without reading the rows.
COMPARED = {"measurements", "products"}
CHANGES = (
    "UPDATE orders SET amount = amount + 1 WHERE id <= 3",
    "DELETE FROM orders WHERE id = 7",
    "INSERT INTO orders (customer, amount) VALUES (1, 2.5)",
    """UPDATE "Customers" SET "Full Name" = 'late', "UpdatedAt" = now() - interval '1 hour' WHERE "Id" = 4""",
    """DELETE FROM "Customers" WHERE "Id" = 5""",
    """UPDATE "order items" SET "select" = NULL WHERE "order" = 2""",
    "INSERT INTO audit_log (who) VALUES ('new')",
    "UPDATE measurements SET ratio = ratio * 2 WHERE id = 1",
    "DELETE FROM hosts WHERE ip = '10.0.0.3'",
    "UPDATE bookings SET during = tstzrange(NULL, 'infinity') WHERE id = 2",
    "UPDATE people SET home = ROW('Elm', NULL)::address WHERE id = 3",
    "INSERT INTO events VALUES (99, '2024-03-01', 'old')",
    "INSERT INTO nothing_yet VALUES (1, 'now')",
    "UPDATE tickets SET title = 'silent' WHERE id = 3",
)
CHANGED = {
    *("public.orders", "Customers", "order items", "audit_log", "measurements", "hosts", "bookings", "people"),
    *("events", "nothing_yet", "tickets"),
}


def same_as_the_source(newcomer: Newcomer) -> set[str]:
    """The streams whose tables hold exactly the rows of the source."""
    project = yaml.safe_load((newcomer.folder / "tidegate.yaml").read_text(encoding="utf-8"))
    equal = set()
    for name, stream in project["streams"].items():
        schema, table = stream["source"]["table"].split(".")
        found = newcomer.table(stream["target"].removeprefix("lake."))
        rows = ordered([tuple(row.values()) for row in found.to_pylist()])
        if rows == newcomer.source(schema, table, found.schema):
            equal.add(name)
    return equal


def test_the_first_hour(newcomer: Newcomer, spark: object) -> None:
    said = newcomer("init", newcomer.url)
    assert said.exit_code == 0, said.err
    written = (newcomer.folder / "tidegate.yaml").read_text(encoding="utf-8")
    streams = yaml.safe_load(written)["streams"]
    assert len(streams) == 19
    for left_out, why in (("payroll", "permission denied"), ("open_orders", "a view"), ("order_totals", "a view")):
        assert any(left_out in line and why in line for line in written.splitlines() if line.startswith("  #   "))
    assert {stream["write"] for name, stream in streams.items() if name != "audit_log"} == {"merge"}

    doctor = newcomer("doctor")
    assert doctor.exit_code == 0, doctor.everything
    assert {each["outcome"] for each in newcomer.streams("plan").values()} == {"changed"}
    assert {(each["outcome"], each["verified"]) for each in newcomer.streams("run").values()} == {("loaded", True)}
    assert same_as_the_source(newcomer) == set(streams)

    newcomer.change(*CHANGES)
    plan = newcomer.streams("plan")
    assert {name for name, each in plan.items() if each["outcome"] == "changed"} == CHANGED | COMPARED
    run = newcomer.streams("run")
    loaded = {name for name, each in run.items() if each["outcome"] == "loaded"}
    assert CHANGED <= loaded <= CHANGED | COMPARED
    assert run["public.orders"]["rows_deleted"] == 1
    assert same_as_the_source(newcomer) == set(streams)

    assert {name for name, each in newcomer.streams("plan").items() if each["outcome"] != "unchanged"} <= COMPARED
    assert all(each["equal"] for each in newcomer.streams("verify").values())
