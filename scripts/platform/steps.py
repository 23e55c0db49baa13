"""The steps of the run: what happens in the city, what the platform does about it, and the command that shows it."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import orchestra
from telling import StepFailed

if TYPE_CHECKING:
    from __main__ import Platform

POLL = "dagster asset materialize -f definitions.py --select garages,readings"
SCHEDULE = "tidegate_cron_x_x_x_x_x"
RUN_COLUMNS = r"^stream |^tickets +\w"
METRICS = "change_detection_time|changed_records_percent|new_partitions_created|compaction_savings|query_performance"
VIEW = "marts.parking.tickets_by_garage"
REFRESHES = (
    "SELECT count(*) AS refreshes FROM system.runtime.queries "
    f"WHERE query LIKE 'REFRESH MATERIALIZED VIEW {VIEW}%' AND state = 'FINISHED'"
)
MORE_TICKETS = """INSERT INTO tickets SELECT 20000 + n, 1 + n % 15, date_trunc('day', localtimestamp)
  + interval '1 minute' * n, NULL, NULL FROM generate_series(1, 300) AS n;
  UPDATE tickets SET paid = paid + 1 WHERE ticket_id = 4711"""


def check_project(on: Platform) -> None:
    """The project file, and the sources of dbt."""
    on.teller.step("Check the project, and tell dbt about its tables")
    on.teller.run("tidegate check")
    on.teller.run("tidegate export dbt-sources --output dbt/models/sources.yml", show="tables")


def first_poll(on: Platform) -> None:
    """Dagster's schedule makes the first loads, and the marts follow."""
    on.teller.step("The first poll, by Dagster's schedule", "each stream has `schedule: {every: 1m}`")
    on.teller.run(f"dagster schedule start -f definitions.py {SCHEDULE}", show="tarted")
    before = orchestra.events(on.dagster)
    need = {"garages", "readings"}
    on.teller.until("load", lambda: need <= orchestra.built(before, orchestra.events(on.dagster)), 400)
    on.teller.run(f"dagster schedule stop -f definitions.py {SCHEDULE}", show="topped")
    orchestra.settle(on.teller, on.dagster)
    after = orchestra.events(on.dagster)
    orchestra.tell(on.teller, before, after)
    need_exactly(orchestra.built(before, after), set(orchestra.ASSETS))
    on.teller.run("tidegate status", last=8)
    on.teller.run("tidegate export dbt-sources --output dbt/models/sources.yml", show="tables")


def marts(on: Platform) -> None:
    """What Trino reads."""
    on.teller.step("Query the marts through Trino")
    on.teller.query(on.trino, "SELECT garage, free, capacity, state FROM marts.parking.availability ORDER BY 1 LIMIT 3")
    on.teller.query(
        on.trino,
        "SELECT hour(hour) AS hour, avg(occupancy) FROM marts.parking.occupancy_by_hour "
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 3",
    )
    on.teller.query(
        on.trino,
        "SELECT weekday, max_by(hour_of_day, expected_occupancy), max(expected_occupancy) "
        "FROM marts.parking.forecast_by_weekday GROUP BY 1 ORDER BY 1",
    )


def small_change(on: Platform) -> None:
    """A minute passes: a few cars are no load of `garages`."""
    on.teller.step("The second poll: a minute later, a few cars more or less", "less than `absolute: 5` is no load")
    post(on, "step?minutes=1")
    built = poll(on)
    need_exactly(built & {"garages", "availability"}, set())
    need_exactly(built & {"readings", "occupancy_by_hour"}, {"readings", "occupancy_by_hour"})
    on.teller.run("tidegate history garages --limit 2", last=6)


def large_change(on: Platform) -> None:
    """A concert begins: the difference is significant, and the mart is built again."""
    on.teller.step("The third poll: 60 cars enter a garage at once")
    post(on, "cars?garage=6&number=60")
    post(on, "step?minutes=1")
    built = poll(on)
    need_exactly(built & {"garages", "availability"}, {"garages", "availability"})
    on.teller.run("tidegate history garages --limit 3", last=6)


def nothing_new(on: Platform) -> None:
    """The same answer again: nothing is loaded, no mart is built."""
    on.teller.step("The fourth poll: nothing has changed")
    need_exactly(poll(on), set())


def tickets(on: Platform) -> None:
    """A table of the other lake, whose catalog is a REST server, by checksums of its days."""
    on.teller.step("Tickets: only the days whose checksum differs, into the lake with the REST catalog")
    on.teller.run("tidegate run tickets", show=RUN_COLUMNS, last=2)
    need_refreshes(on, 1)
    with on.postgres.connect("office") as office:
        office.execute(MORE_TICKETS)
    on.teller.say("300 tickets of today come, and one of an earlier day is corrected")
    on.teller.run("tidegate plan tickets", last=8)
    on.teller.run("tidegate run tickets", show=RUN_COLUMNS, last=2)
    need_refreshes(on, 2)
    on.teller.run("tidegate run tickets", show=RUN_COLUMNS, last=2)
    need_refreshes(on, 2)
    on.teller.query(
        on.trino,
        "SELECT g.name, count(*) AS tickets FROM city.office.tickets AS t JOIN lake.parking.garages AS g "
        "USING (garage_id) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
    )


def need_refreshes(on: Platform, number: int) -> None:
    """The hook of `tickets` has refreshed its view that often, and the view has what the table has."""
    rows = on.teller.query(on.trino, REFRESHES)
    viewed, loaded = on.trino.run(f"SELECT sum(tickets) FROM {VIEW} UNION ALL SELECT count(*) FROM city.office.tickets")
    if rows != [[number]] or viewed != loaded:
        raise StepFailed(
            f"{VIEW} was refreshed {rows[0][0]} times, expected {number}; its {viewed}, the table's {loaded}"
        )


def upkeep(on: Platform) -> None:
    """Small files come together, and what it saved."""
    on.teller.step("Four more polls, then compaction: what it saves")
    for _ in range(4):
        post(on, "step?minutes=5")
        on.teller.run("tidegate run readings", show=r"^readings +loaded", last=1)
    files = 'SELECT count(*), sum(file_size_in_bytes) FROM lake.parking."readings$files"'
    on.teller.query(on.trino, files)
    distinct(on, exist=False)
    on.teller.run(
        "tidegate maintain readings --force", show=r"^stream|^readings +m|readings: compact:|measured q", last=4
    )
    on.teller.query(on.trino, files)
    distinct(on, exist=True)
    on.teller.query(
        on.trino,
        'SELECT partition, file_count, record_count FROM lake.parking."readings$partitions" '
        "ORDER BY partition DESC LIMIT 3",
    )
    on.teller.run("tidegate savings --days 1")
    on.teller.run(f"tidegate metrics | grep -E '^tidegate_({METRICS})' | sed -E 's/project=[^,]*,|,target=[^}}]*//g'")


def distinct(on: Platform, *, exist: bool) -> None:
    """The distinct values by which Trino plans, which it has or has not."""
    rows = on.trino.run("SHOW STATS FOR lake.parking.readings")
    found = {row[0]: row[2] for row in rows if row[0] in ("garage_id", "measured_at")}
    on.teller.say(
        "trino> SHOW STATS FOR lake.parking.readings", *(f"  {name}: distinct {n}" for name, n in found.items())
    )
    if any((n is not None) is not exist for n in found.values()):
        raise StepFailed(f"distinct values of readings: {found}")


def time_travel(on: Platform) -> None:
    """An older version, and the freshness of a materialized view."""
    on.teller.step("Time travel")
    found = on.teller.run("tidegate history garages --versions --json", show="^$")
    versions = [each for each in json.loads(found)["versions"] if each["readable"]]
    on.teller.say(f"{len(versions)} versions can be read")
    for each in (versions[0], versions[-1]):
        on.teller.query(
            on.trino, f"SELECT free FROM lake.parking.garages FOR VERSION AS OF {each['id']} WHERE garage_id = 6"
        )


def views_and_caches(on: Platform) -> None:
    """What stands in for a result cache."""
    on.teller.step("Materialized views and caches", "open-source Trino has no cache of results; these stand in for it")
    on.teller.query(on.trino, "SELECT catalog_name, name, freshness FROM system.metadata.materialized_views")
    on.teller.query(on.trino, "REFRESH MATERIALIZED VIEW marts.parking.forecast_by_weekday")
    on.teller.query(on.trino, "SELECT count(*), avg(free) FROM lake.parking.readings")
    on.teller.run("du -sh cache/lake  # files of S3 that Trino keeps on its own disk")


def outage(on: Platform) -> None:
    """The API fails, and people are told."""
    on.teller.step("The API fails: every answer is 503")
    post(on, "outage?on=1")
    on.teller.run(POLL, show="source_unavailable", last=1, code=1)
    on.teller.run("tidegate alerts check", last=4)
    told(on, "garages: run failed")
    firing(on, "TidegateRunFailed")


def lost_table(on: Platform) -> None:
    """A table fails, and people are told."""
    on.teller.step("A table fails: its files are gone from the bucket")
    with on.postgres.connect("office") as office:
        office.execute("UPDATE tickets SET paid = 1 WHERE ticket_id = 4712")
    files = on.folder / "s3" / "parking" / "city"
    files.rename(files.with_name("lost"))
    try:
        on.teller.run("tidegate run tickets", show="^error|hint", code=1)
        on.teller.run("tidegate alerts check", last=4)
        on.teller.run("tidegate alerts list", last=8)
    finally:
        files.with_name("lost").rename(files)
    told(on, "tickets: run failed")


def recovery(on: Platform) -> None:
    """What was missed is loaded, people are told that it is over, and the tables equal their sources."""
    on.teller.step("Both are back: the next loads bring what was missed")
    post(on, "outage?on=0")
    post(on, "cars?garage=6&number=-60")
    post(on, "step?minutes=5")
    need_exactly(poll(on), set(orchestra.ASSETS))
    on.teller.run("tidegate run tickets", show=RUN_COLUMNS, last=2)
    on.teller.run("tidegate alerts check", last=4)
    told(on, "recovered")
    on.teller.run("tidegate verify", last=6)


def poll(on: Platform) -> set[str]:
    """One poll by Dagster; the assets that were materialized by it and after it."""
    before = orchestra.events(on.dagster)
    on.teller.run(POLL, show="^$")
    orchestra.settle(on.teller, on.dagster)
    after = orchestra.events(on.dagster)
    orchestra.tell(on.teller, before, after)
    return orchestra.built(before, after)


def need_exactly(found: set[str], wanted: set[str]) -> None:
    """Refuses assets that were built and should not have been, or the other way round."""
    if found != wanted:
        raise StepFailed(f"materialized: {sorted(found)}; expected: {sorted(wanted)}")


def post(on: Platform, path: str) -> None:
    """Something happens in the city."""
    on.teller.say(f"$ curl -X POST '$CITY_URL/{path}'")
    with urllib.request.urlopen(urllib.request.Request(f"{on.api.url}/{path}", method="POST"), timeout=30):
        pass


def told(on: Platform, pattern: str) -> None:
    """The messages that the webhook took since the last look; one of them has to say this."""
    taken, on.receiver.taken[:] = list(on.receiver.taken), []
    for each in taken:
        on.teller.say(
            f"the webhook got: {each['title']}", *(f"  {line}" for line in each["message"].splitlines() if line)
        )
    if not any(re.search(pattern, each["title"]) for each in taken):
        raise StepFailed(f"no message says {pattern!r}")


def firing(on: Platform, alert: str) -> None:
    """Waits until a rule of Prometheus fires."""
    if on.prometheus is None:
        return on.teller.say("Prometheus is not installed, so its rules are not shown")
    on.teller.say("$ curl $PROMETHEUS/api/v1/alerts")

    def found() -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{on.prometheus}/api/v1/alerts", timeout=30) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return [each for each in alerts if each["state"] == "firing" and each["labels"]["alertname"] == alert]

    for each in on.teller.until(f"alert {alert}", found, 90):
        on.teller.say(f"  firing: {each['labels']['alertname']}: {each['annotations']['summary']}")
    return None


ALL = (
    check_project,
    first_poll,
    marts,
    small_change,
    large_change,
    nothing_new,
    tickets,
    upkeep,
    time_travel,
    views_and_caches,
    outage,
    lost_table,
    recovery,
)
