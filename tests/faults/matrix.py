"""Which tests prove what of the fault matrix; `python -m faults.matrix` prints them for pytest."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, the tests that try it, and what of it no test tries."""

    number: int
    what: str
    tests: tuple[str, ...] = ()
    untried: str = ""


FAULTS = (
    Fault(
        number=1,
        what="the process group is killed at every boundary of every stage, and at random moments (above)",
        tests=("tests/crash",),
    ),
    Fault(
        number=2,
        what="Java dies and Python lives, and the reverse",
        tests=(
            "tests/integration/cli/test_breakdowns.py::test_the_jvm_dies_in_the_middle",
            "tests/integration/cli/test_breakdowns.py::test_a_jvm_that_dies_at_each_attempt",
            "tests/integration/cli/test_java_killed.py",
            "tests/integration/service/test_serve.py",
        ),
    ),
    Fault(
        number=3,
        what="the reply to a commit is lost",
        tests=(
            "tests/integration/engine/test_guarantees.py::test_a_lost_reply_is_settled_by_the_table",
            "tests/contract/test_delta_facts.py::test_a_load_whose_reply_is_lost_has_landed",
            "tests/integration/network/test_catalog.py",
            "tests/integration/stores/test_delta_commits.py::test_the_reply_to_a_commit_is_lost",
        ),
    ),
    Fault(
        number=4,
        what="the disk of the warehouse is full, of the registry, or of Spark's temporary files",
        tests=(
            "tests/integration/cli/test_breakdowns.py::test_a_disk_that_is_full",
            "tests/integration/cli/test_resources.py::test_a_temporary_folder_that_is_full",
            "tests/integration/cli/test_resources.py::test_a_disk_of_the_registry_that_is_full",
        ),
    ),
    Fault(
        number=5,
        what="the source ends its sessions, is emptied, restored, fails over or is another server, also during a load",
        tests=(
            "tests/integration/cli/test_breakdowns.py::test_a_source_that_breaks_off",
            "tests/integration/source/test_reading.py::test_connection_that_is_cut_may_be_tried_again",
            "tests/integration/source/test_restored.py",
            "tests/integration/engine/test_restored.py",
            "tests/integration/engine/test_source_replaced.py",
            "tests/integration/slot/test_slot_restored.py",
            "tests/integration/slot/test_slot_copied.py",
        ),
    ),
    Fault(
        number=6,
        what="several runners of one stream, with one registry and with several; ten processes at once",
        tests=(
            "tests/integration/engine/test_guarantees.py::test_two_runners_with_registries_of_their_own_publish_once",
            "tests/integration/engine/test_delta.py::test_two_runners_with_registries_of_their_own_land_once",
            "tests/integration/slot/test_slot_loads.py::test_two_runs_at_once_publish_once",
            "tests/integration/stores/test_delta_commits.py",
            "tests/integration/registry/test_sqlite.py",
            "tests/integration/registry/test_postgres.py",
            "tests/integration/registry/test_many_processes.py",
        ),
    ),
    Fault(
        number=7,
        what="another writer commits, maintains, expires or rolls back between position and commit",
        tests=(
            "tests/integration/engine/test_guarantees.py::test_a_foreign_commit_in_between_is_overtaken",
            "tests/contract/test_iceberg_facts.py",
            "tests/contract/test_delta_facts.py",
            "tests/integration/engine/test_main_job.py::test_a_table_rolled_back_by_hand_stops_then_is_repaired",
        ),
    ),
    Fault(
        number=8,
        what="events twice, late, in no order, several of one position; TRUNCATE, unavailable values, changed keys",
        tests=(
            "tests/property/test_event_histories.py",
            "tests/property/test_transactions.py",
            "tests/integration/log/test_random_event_histories.py",
            "tests/integration/log/test_change_log.py",
        ),
    ),
    Fault(
        number=9,
        what="rows that become visible late: long and prepared transactions, equal times, NULL cursors",
        tests=(
            "tests/integration/source/test_interleavings.py",
            "tests/integration/source/test_lost_rows.py",
            "tests/integration/source/test_edges.py",
            "tests/integration/engine/test_late_rows.py",
        ),
    ),
    Fault(
        number=10,
        what="columns come, go, are renamed or change their type",
        tests=(
            "tests/integration/engine/test_guarantees.py",
            "tests/integration/engine/test_renames.py",
            "tests/integration/engine/test_rescue.py",
            "tests/integration/engine/test_source_replaced.py::test_a_table_that_is_changed_while_it_is_read",
            "tests/crash/test_kill_types.py",
        ),
    ),
    Fault(
        number=11,
        what="registry, catalog, metadata, position or data files are damaged, gone, newer, or of another table",
        tests=(
            "tests/integration/cli/test_refusals.py",
            "tests/integration/engine/test_damaged_files.py",
            "tests/unit/registry/test_opening.py",
            "tests/unit/formats/test_iceberg.py",
            "tests/unit/formats/test_delta.py",
        ),
    ),
    Fault(
        number=12,
        what="values that no column keeps, damaged files, files that change while they are read",
        tests=(
            "tests/integration/cli/test_poison.py",
            "tests/integration/files/test_formats.py",
            "tests/integration/log/test_extreme_events.py",
            "tests/integration/quality/test_quarantine_histories.py",
        ),
    ),
    Fault(number=13, what="hostile names", tests=("tests/integration/cli/test_odd_names.py",)),
    Fault(
        number=14,
        what="secrets in outputs, logs, records and files",
        tests=(
            "tests/integration/cli/test_secrets.py",
            "tests/integration/cli/test_canaries.py",
            "tests/integration/service/test_canaries.py",
        ),
    ),
    Fault(
        number=15,
        what="a thousand loads with maintenance between them",
        tests=("tests/integration/upkeep/test_endurance.py", "tests/contract/test_maintenance.py"),
    ),
    Fault(
        number=16,
        what="executors die, and Spark repeats their tasks or starts them twice (speculation); too little memory",
        tests=(
            "tests/integration/lake/test_masters.py",
            "tests/integration/cli/test_resources.py::test_too_little_memory",
        ),
    ),
    Fault(
        number=17,
        what="the clock of the machine moves back or ahead, during a load and between loads",
        tests=("tests/integration/cli/test_clock.py", "tests/unit/strategies/test_watermark.py"),
    ),
    Fault(
        number=18,
        what="registries and positions of other versions",
        tests=("tests/unit/registry/test_store.py", "tests/integration/registry/test_postgres.py"),
    ),
    Fault(
        number=19,
        what="random histories of changes, loads, crashes, foreign commits and maintenance",
        tests=("tests/property/test_partitions.py", "tests/matrix/test_matrix.py"),
    ),
    Fault(
        number=20,
        what="the network to source, catalog or registry is slow, breaks off at any stage, or swallows everything",
        tests=(
            "tests/integration/network/test_source.py",
            "tests/integration/network/test_catalog.py",
            "tests/integration/network/test_catalog_answers.py",
            "tests/integration/network/test_catalog_login.py",
            "tests/integration/network/test_keepalive.py",
        ),
    ),
    Fault(
        number=21,
        what="the registry cannot be reached, is killed, or answers nothing for a while or for long, at every stage",
        tests=("tests/integration/network/test_registry.py",),
    ),
    Fault(
        number=22,
        what="the server of source, REST catalog, object store or Spark is killed, or stands still, during a load",
        tests=(
            "tests/integration/network/test_servers.py",
            "tests/integration/topics/test_broker_lost.py",
            "tests/integration/source/trino/test_lost.py",
            "tests/integration/lake/test_connect_lost.py",
        ),
    ),
)

if __name__ == "__main__":
    sys.stdout.write(" ".join(dict.fromkeys(test for fault in FAULTS for test in fault.tests)) + "\n")
