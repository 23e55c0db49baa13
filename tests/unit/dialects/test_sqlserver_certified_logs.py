"""How the kit has SQL Server keep logs of its table, and that it undoes what it did and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from support import simulated_scratch
from support.simulated_scratch import ScratchServer
from support.simulated_sqlserver import URL
from tidegate.core.ids import Connection
from tidegate.errors import ConfigError
from tidegate_scenarios import table_logs
from tidegate_scenarios.certification import Scratch, TableLog
from tidegate_scenarios.databases.sqlserver import SqlServerCertification
from tidegate_scenarios.sqlserver_logs import IN_USE, MARKER, ChangeDataCapture, ChangeTracking

TABLE, INSTANCE = "tidegate_orders", "tidegate_certify_1a2b"
CAPTURE, TRACKING = ChangeDataCapture(), ChangeTracking()
ENABLED = (
    "EXEC sys.sp_cdc_enable_table @source_schema = N'tidegate_certify', @source_name = N'tidegate_orders', "
    "@role_name = NULL, @capture_instance = N'tidegate_certify_1a2b'"
)
DISABLED = (
    "EXEC sys.sp_cdc_disable_table @source_schema = N'tidegate_certify', @source_name = N'tidegate_orders', "
    "@capture_instance = N'tidegate_certify_1a2b'"
)
MARKED = "[tidegate_certify].[tidegate_tracking_of_the_database]"
OFF = "ALTER DATABASE [shop] SET CHANGE_TRACKING = OFF"


@pytest.fixture
def server() -> Iterator[ScratchServer]:
    with simulated_scratch.working() as found:
        yield found


@pytest.fixture
def scratch(server: ScratchServer) -> Iterator[Scratch]:
    """With the kit's table."""
    kit = SqlServerCertification(server.connect)
    there = kit.open(Connection(name="erp", url=URL), None)
    there.create()
    columns = {f"[{name}]": column.native for name, column in simulated_scratch.COLUMNS.items()}
    there.execute(kit.create_table("[tidegate_certify].[tidegate_orders]", columns))
    server.statements.clear()
    yield there
    there.close()


def did(server: ScratchServer) -> list[str]:
    """What changed anything."""
    return [sql for sql in server.statements if sql.startswith(("EXEC", "ALTER", "CREATE", "DROP"))]


def test_a_table_is_captured_and_no_longer(server: ScratchServer, scratch: Scratch) -> None:
    CAPTURE.start(scratch, TABLE, INSTANCE)
    assert did(server) == [ENABLED]
    assert CAPTURE.source(INSTANCE) == {"capture_instance": INSTANCE}
    assert CAPTURE.stop(scratch, TABLE, INSTANCE) == ()
    assert CAPTURE.stop(scratch, TABLE, INSTANCE) == ()
    assert did(server) == [ENABLED, DISABLED]


@pytest.mark.parametrize(
    ("about", "reason", "statement"),
    [
        ((0, 1, "shop", "loader"), "change data capture is off", "USE [shop]; EXEC sys.sp_cdc_enable_db"),
        ((1, 0, "shop", "lo]ader"), "not a member of db_owner", "ALTER ROLE db_owner ADD MEMBER [lo]]ader]"),
    ],
)
def test_what_would_allow_capture_is_said(
    server: ScratchServer, scratch: Scratch, about: tuple[Any, ...], reason: str, statement: str
) -> None:
    server.on("is_rolemember", [about])
    with pytest.raises(ConfigError, match=reason) as found:
        CAPTURE.start(scratch, TABLE, INSTANCE)
    assert statement in found.value.hint
    assert did(server) == []


def test_a_capture_job_that_comes_to_the_table_is_waited_for(server: ScratchServer, scratch: Scratch) -> None:
    CAPTURE.start(scratch, TABLE, INSTANCE)
    assert CAPTURE.pending(scratch, INSTANCE)
    assert table_logs.wait([CAPTURE], scratch, INSTANCE) == {}


def test_a_capture_job_that_stands_still_is_a_reason(server: ScratchServer, scratch: Scratch) -> None:
    class Impatient(ChangeDataCapture):
        behind: ClassVar[float] = 0.1

    server.ends.set()
    impatient = Impatient()
    impatient.start(scratch, TABLE, INSTANCE)
    found = table_logs.wait([impatient], scratch, INSTANCE)
    assert "sp_cdc_start_job" in found["cdc"]


def test_capture_that_cannot_be_ended_is_left(server: ScratchServer, scratch: Scratch) -> None:
    CAPTURE.start(scratch, TABLE, INSTANCE)
    server.refused.append("sp_cdc_disable_table")
    assert CAPTURE.stop(scratch, TABLE, INSTANCE) == (f"capture instance {INSTANCE}",)


def test_tracking_of_the_database_is_what_it_was(server: ScratchServer, scratch: Scratch) -> None:
    TRACKING.start(scratch, TABLE, INSTANCE)
    assert did(server) == [
        f"CREATE TABLE {MARKED} (id int)",
        "ALTER DATABASE [shop] SET CHANGE_TRACKING = ON",
        "ALTER TABLE [tidegate_certify].[tidegate_orders] ENABLE CHANGE_TRACKING",
    ]
    server.statements.clear()
    assert TRACKING.stop(scratch, TABLE, INSTANCE) == ()
    assert did(server) == [
        "ALTER TABLE [tidegate_certify].[tidegate_orders] DISABLE CHANGE_TRACKING",
        OFF,
        f"DROP TABLE {MARKED}",
    ]
    assert (server.tracks, server.tracked) == (False, False)


def test_a_database_that_tracks_changes_goes_on(server: ScratchServer, scratch: Scratch) -> None:
    server.tracks = True
    TRACKING.start(scratch, TABLE, INSTANCE)
    assert TRACKING.source(INSTANCE) == {"change_tracking": True}
    assert TRACKING.stop(scratch, TABLE, INSTANCE) == ()
    assert (server.tracks, server.tracked) == (True, False)
    assert all("DATABASE" not in sql for sql in did(server))


def test_what_a_killed_certification_switched_on_is_switched_off(server: ScratchServer, scratch: Scratch) -> None:
    TRACKING.start(scratch, TABLE, INSTANCE)
    CAPTURE.start(scratch, TABLE, INSTANCE)
    scratch.execute("DROP TABLE [tidegate_certify].[tidegate_orders]")
    logs: list[TableLog] = [ChangeDataCapture(), ChangeTracking()]
    assert table_logs.stop(logs, scratch, INSTANCE) == ()
    assert (server.tracks, scratch.contents()) == (False, ())


def test_tracking_that_others_use_by_now_stays_on(server: ScratchServer, scratch: Scratch) -> None:
    TRACKING.start(scratch, TABLE, INSTANCE)
    server.others = 1
    assert TRACKING.stop(scratch, TABLE, INSTANCE) == (IN_USE,)
    assert (server.tracks, server.tracked, scratch.contents()) == (True, False, (TABLE,))


def test_tracking_that_cannot_be_switched_off_is_left_as_a_table(server: ScratchServer, scratch: Scratch) -> None:
    TRACKING.start(scratch, TABLE, INSTANCE)
    server.refused.append("= OFF")
    assert TRACKING.stop(scratch, TABLE, INSTANCE) == ()
    assert MARKER in (scratch.contents() or ())


@pytest.mark.parametrize("refused", ["SET CHANGE_TRACKING = ON", "ENABLE CHANGE_TRACKING"])
def test_tracking_that_is_refused_changes_nothing(server: ScratchServer, scratch: Scratch, refused: str) -> None:
    server.refused.append(refused)
    with pytest.raises(ConfigError, match="may not switch it on"):
        TRACKING.start(scratch, TABLE, INSTANCE)
    assert (server.tracks, server.tracked, scratch.contents()) == (False, False, (TABLE,))


@pytest.mark.parametrize(
    ("about", "reason", "statement"),
    [
        ((0, 0, 1, "shop", "loader", "l"), "may not switch it on", "GRANT ALTER ON DATABASE::[shop] TO [loader]"),
        ((0, 0, 1, "shop", "loader", "l"), "may not switch it on", "ALTER DATABASE [shop] SET CHANGE_TRACKING = ON"),
        ((1, 1, 0, "shop", "u", "loader"), "which history", "GRANT VIEW ANY DATABASE TO [loader]"),
    ],
)
def test_what_would_allow_tracking_is_said(
    server: ScratchServer, scratch: Scratch, about: tuple[Any, ...], reason: str, statement: str
) -> None:
    server.on("'DATABASE', 'ALTER'", [about])
    said = table_logs.start([TRACKING], scratch, INSTANCE)["change_tracking"]
    assert reason in said
    assert statement in said
    assert did(server) == []
