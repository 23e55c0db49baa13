"""Which tests cause what of the fault matrix; `python -m faults.matrix` prints them for pytest."""

from __future__ import annotations

import sys

MATRIX = """\
the process group is killed at the boundaries of the stages, and at random moments (above)
    crash integration/api

Java dies and Python lives, and the reverse
    integration/cli/test_breakdowns.py integration/cli/test_java_killed.py integration/service/test_serve.py

the reply to a commit is lost
    integration/network/test_catalog.py integration/stores/test_delta_commits.py
    integration/engine/test_guarantees.py contract/test_delta_facts.py

the disk of the warehouse is full, of the registry, or of Spark's temporary files
    integration/cli/test_breakdowns.py

the source ends its sessions, is emptied, restored, fails over or is another server, also during a load
    integration/source/test_reading.py integration/source/test_restored.py integration/engine/test_restored.py
    integration/engine/test_source_replaced.py
    integration/slot/test_slot_copied.py

several runners of one stream, with one registry and with several; ten processes at once
    integration/registry integration/stores/test_delta_commits.py integration/engine/test_guarantees.py
    integration/engine/test_delta.py integration/slot/test_slot_loads.py

another writer commits, maintains, expires or rolls back between position and commit
    integration/engine/test_guarantees.py contract/test_iceberg_facts.py contract/test_delta_facts.py
    integration/engine/test_main_job.py

events twice, late, in no order, several of one position; TRUNCATE, unavailable values, changed keys
    property/test_event_histories.py property/test_transactions.py
    integration/log/test_change_log.py

rows that become visible late: long and prepared transactions, equal times, NULL cursors
    integration/source/test_lost_rows.py integration/source/test_edges.py
    integration/engine/test_late_rows.py

columns come, go, are renamed or change their type
    integration/engine/test_guarantees.py integration/engine/test_renames.py integration/engine/test_rescue.py
    integration/engine/test_source_replaced.py newcomer/test_changed_types.py

registry, catalog, metadata, position or data files are damaged, gone, newer, or of another table
    integration/cli/test_refusals.py integration/engine/test_damaged_files.py unit/registry/test_opening.py
    unit/formats/test_iceberg.py unit/formats/test_delta.py

values that no column keeps, damaged files, files that change while they are read
    integration/cli/test_poison.py integration/files/test_formats.py integration/log/test_extreme_events.py

hostile names
    integration/cli/test_odd_names.py

secrets in outputs, logs, records and files
    integration/cli/test_secrets.py integration/cli/test_canaries.py integration/service/test_canaries.py

a thousand loads with maintenance between them
    integration/upkeep/test_endurance.py contract/test_maintenance.py

executors die, and Spark repeats their tasks or starts them twice (speculation); too little memory
    integration/lake/test_masters.py integration/cli/test_breakdowns.py

the clock of the machine moves back or ahead, during a load and between loads
    integration/cli/test_clock.py unit/strategies/test_watermark.py

registries and positions of other versions
    unit/registry/test_store.py integration/registry/test_postgres.py

random histories of changes, loads, crashes, foreign commits and maintenance
    matrix/test_matrix.py

the network to source, catalog or registry is slow, breaks off at any stage, or swallows everything
    integration/network/test_source.py integration/network/test_catalog.py
    integration/network/test_catalog_answers.py integration/network/test_catalog_login.py
    integration/network/test_keepalive.py

the registry cannot be reached, is killed, or answers nothing for a while or for long, at every stage
    integration/network/test_registry.py

the server of source, REST catalog, object store or Spark is killed, or stands still, during a load
    integration/network/test_servers.py integration/topics/test_broker_lost.py integration/source/trino/test_lost.py
    integration/lake/test_connect_lost.py
"""
FAULTS = [(what, tests.split()) for what, _, tests in (fault.partition("\n") for fault in MATRIX.split("\n\n"))]
"""Each fault, and the files and folders below `tests` that cause it."""

if __name__ == "__main__":
    found = dict.fromkeys(test for _, tests in FAULTS for test in tests)
    sys.stdout.write(" ".join(f"tests/{test}" for test in found) + "\n")
