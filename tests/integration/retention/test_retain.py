"""`retain:`: what a table holds after any history is what a dictionary says, and no load brings a dropped row back."""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from support.lake import QUICK, delta_rows
from support.shops import PostgresShop
from support.workspace import SqliteShop, Workspace
from tidegate.api import Project
from tidegate.core.bucketing import Level
from tidegate.engine.context import RunContext
from tidegate.engine.events import ignore
from tidegate.engine.maintenance.maintain import maintain_streams
from tidegate.engine.preview import preview
from tidegate.engine.run import run_streams
from tidegate.engine.stream import Stream
from tidegate.engine.verify import verify_streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

KEEP = timedelta(days=10)
TODAY = datetime(2025, 3, 31, 1, 30, tzinfo=UTC)
STRATEGIES: dict[str, dict[str, Any]] = {
    "snapshot_diff": {"strategy": "snapshot_diff"},
    "by_integer": {"strategy": {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 4}},
    "replaced": {"strategy": "full", "write": "replace"},
    "watermark": {
        "strategy": {"kind": "watermark", "column": "changed_at"},
        "deletes": {"detect": "key_diff", "max_fraction": 0.9},
    },
    "by_date": {"strategy": {"kind": "checksum", "method": "by_date", "column": "day", "period": "month"}},
    "full": {"strategy": "full"},
    "sequence": {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"},
}


@dataclass
class Days:
    """A shop whose rows have a day, its stream, and a dictionary of what the table should hold.

    Args:
        now: the time of every command.
        begin: the first day that the table keeps, as far as it was told; None for all.
    """

    workspace: Workspace
    shop: Any
    spark: Any
    kind: str
    how: str
    now: datetime = TODAY
    rows: dict[int, tuple[date | None, str]] = field(default_factory=dict)
    begin: date | None = None
    clock: int = 0

    def configure(self, keep: str | None = "10d", column: str = "day", **more: Any) -> None:
        source = {"connection": "shop", "table": "events"}
        stream = {"source": source, "target": "lake.shop.events", "key": ["id"], "write": "merge"}
        stream |= {**STRATEGIES[self.how], "layout": {"partition_by": ["day"]}, **more}
        if keep:
            stream["retain"] = {"column": column, "keep": keep}
        self.workspace.write(
            {"events": stream},
            connections={"shop": {"url": self.shop.url}},
            lakes={"lake": {"format": self.kind}},
            spark={"conf": QUICK},
        )

    def put(self, number: int, day: date | None, text: str = "a") -> None:
        self.clock += 1
        at = datetime(2025, 1, 1) + timedelta(seconds=self.clock)  # noqa: DTZ001 - a column without a zone
        value = "NULL" if day is None else f"'{day}'"
        self.shop.sql(
            f"DELETE FROM events WHERE id = {number}",
            f"INSERT INTO events VALUES ({number}, {value}, '{text}', '{at}.000000')",
        )
        self.rows[number] = (day, text)

    def remove(self, number: int) -> None:
        self.shop.sql(f"DELETE FROM events WHERE id = {number}")
        del self.rows[number]

    def project(self) -> Project:
        return self.workspace.project(self.spark)

    def at_work(self, project: Project, **flags: Any) -> tuple[list[Stream], RunContext]:
        """The stream, and a context whose clock is the test's."""
        return project.streams("events"), replace(project._context(**flags), now=lambda: self.now)

    def run(self, **flags: Any) -> Any:
        with self.project() as project:
            streams, context = self.at_work(project, **flags)
            state = streams[0].format.state(streams[0].target, streams[0].uid)
            if not state.exists or context.full_refresh:
                self.begin = self.now.date() - KEEP
            return run_streams(streams, context, listener=ignore).streams[0]

    def load(self, **options: Any) -> Any:
        done = self.run(**options)
        assert done.error is None, done.error
        assert self.seen() == self.wanted()
        return done

    def maintain(self, **options: Any) -> Any:
        with self.project() as project:
            streams, context = self.at_work(project, **options)
            return maintain_streams(streams, context, force=False, dry_run=False).streams[0]

    def drop(self, **options: Any) -> str:
        """A maintenance; what it says of the rule's step."""
        done = self.maintain(**options)
        assert done.error is None, done.error
        self.begin = max(self.begin or date.min, self.now.date() - KEEP)
        assert self.seen() == self.wanted()
        steps = [step for table in done.tables for step in table.steps]
        return next((str(step.did) for step in steps if step.step == "retain"), "")

    def equal(self) -> None:
        """Nothing differs, and a repair has nothing to do."""
        with self.project() as project:
            streams, context = self.at_work(project)
            (found,) = verify_streams(streams, context, Level.ROWS, repair=True).streams
        assert (found.error, found.equal, found.repaired_rows) == (None, True, 0)
        assert self.seen() == self.wanted()

    def wanted(self) -> dict[int, tuple[date | None, str]]:
        kept = {
            key: row for key, row in self.rows.items() if self.begin is None or row[0] is None or row[0] >= self.begin
        }
        return dict(sorted(kept.items()))

    def seen(self) -> dict[int, tuple[date | None, str]]:
        if self.kind == "delta":
            rows = delta_rows(f"file://{self.workspace.folder}/warehouse/shop/events")
        else:
            rows = self.workspace.rows("shop.events")
        found = {row["id"]: (row["day"], row["text"]) for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return dict(sorted(found.items()))


def day(ago: int) -> date:
    return TODAY.date() - timedelta(days=ago)


@pytest.fixture
def made(spark, tmp_path, request):
    def make(kind: str, how: str, database: str = "sqlite", **configured: Any) -> Days:
        if database == "sqlite":
            shop: Any = SqliteShop(path=tmp_path / "shop.db")
            number = "integer PRIMARY KEY AUTOINCREMENT"
        else:
            shop, number = PostgresShop(url=request.getfixturevalue("pg_url")), "integer PRIMARY KEY"
        shop.sql(f"CREATE TABLE events (id {number}, day date, text text, changed_at timestamp)")
        found = Days(workspace=Workspace(folder=tmp_path), shop=shop, spark=spark, kind=kind, how=how)
        found.configure(**configured)
        return found

    return make


def history(days: Days) -> None:
    """The source keeps its old rows; the table loses them day by day, and never gets one of them back."""
    for number in range(1, 13):
        days.put(number, day(number))
    days.put(20, None)
    days.load()  # a first load brings no row that is too old: 1 to 10, and the one without a day
    assert len(days.seen()) == 11
    assert days.drop() == ""
    days.now += timedelta(days=1)
    assert days.drop().startswith("1 row dropped")
    assert 10 not in days.seen()
    days.load()
    days.equal()

    if days.how != "sequence":
        days.put(9, day(9), "changed within")
        days.put(12, day(12), "changed beyond")
        days.put(11, day(2), "moves in")
        days.put(3, day(40), "moves out")
        days.put(20, day(0), "gets a day")
        days.put(4, None, "loses its day")
        days.remove(5)
    days.put(30, day(30), "comes late")
    days.put(31, day(0), "comes")
    days.load()
    days.equal()

    days.now -= timedelta(days=5)  # a clock that goes backwards
    assert days.drop() == ""
    days.load()
    days.now += timedelta(days=7)
    assert "rows dropped" in days.drop()
    days.load()
    days.equal()
    assert days.run().outcome == "unchanged"


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("iceberg", "snapshot_diff"),
        ("iceberg", "by_date"),
        ("iceberg", "sequence"),
        ("delta", "replaced"),
        ("delta", "watermark"),
    ],
)
def test_dropped_rows_are_no_difference_and_never_come_back(made, kind, how):
    history(made(kind, how))


@pytest.mark.postgres
def test_a_rule_on_rows_of_postgresql(made):
    history(made("iceberg", "by_integer", "postgresql"))


def test_a_rule_that_drops_much_is_guarded_and_one_that_is_gone_is_no_permission(made):
    days = made("delta", "snapshot_diff", keep=None)
    for number in range(30):
        days.put(number, day(number))
    days.begin = date.min
    with days.project() as project:
        streams, context = days.at_work(project)
        assert run_streams(streams, context, listener=ignore).streams[0].error is None
    days.configure()
    days.equal()  # a rule drops nothing before maintenance does
    stopped = days.maintain()
    assert stopped.error.code == "delete_fuse"
    assert "would drop 19 of 30 rows" in stopped.error.message
    assert "tidegate maintain events --allow-deletes" in stopped.error.hint
    days.equal()
    assert days.drop(allow_deletes=True).startswith("19 rows dropped")
    days.load()

    days.configure(keep="20d")
    with days.project() as project:
        streams, context = days.at_work(project)
        planned = preview(streams[0], context)
        assert any("--full-refresh --yes` brings them back" in note for note in planned.notes), planned.notes
    assert len(days.seen()) == 11
    for gone in ({"keep": None}, {"column": "changed_at"}):
        days.configure(**gone)
        error = days.run().error
        assert error.code == "config"
        assert "were dropped by `retain:`, which the project no longer has" in error.message
        assert len(days.seen()) == 11
    days.configure(keep=None)
    with days.project() as project:
        streams, context = days.at_work(project, full_refresh=True)
        assert run_streams(streams, context, listener=ignore).streams[0].error is None
    assert len(days.seen()) == 30


@pytest.mark.postgres
def test_days_of_timestamps_are_those_of_utc(made):
    days = made("iceberg", "full", "postgresql")
    days.shop.sql("ALTER TABLE events ADD COLUMN at timestamptz")
    days.configure(column="at", layout={"partition_by": ["days(at)"]})
    border = datetime(2025, 3, 21, tzinfo=UTC)
    moments = {1: border - timedelta(microseconds=1), 2: border, 3: border + timedelta(hours=23), 4: None}
    for number, at in moments.items():
        value = "NULL" if at is None else f"'{at.isoformat()}'"
        days.shop.sql(f"INSERT INTO events VALUES ({number}, NULL, 'a', NULL, {value})")
    assert days.run().error is None
    assert set(days.seen()) == {2, 3, 4}
    days.now += timedelta(days=1)
    (step,) = [step for table in days.maintain().tables for step in table.steps if step.step == "retain"]
    assert step.did.startswith("2 rows dropped")
    assert set(days.seen()) == {4}
