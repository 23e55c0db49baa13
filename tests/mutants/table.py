"""The mutants: each changes one decision of the engine, or one of its guarantees, so that it is wrong in silence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file.

    Args:
        file: below `src/tidegate`.
        text: stands in it exactly once.
        changed: what it becomes.
        breaks: what no longer holds.
        tests: a file below `tests` of which a test probably notices it.
    """

    file: str
    text: str
    changed: str
    breaks: str
    tests: str


MUTANTS = (
    Mutant(
        "engine/reconcile.py",
        "in_table.sequence == in_registry.sequence and in_table.load_id != in_registry.load_id",
        "False",
        "a table that was restored, and loaded again under the same number, is continued",
        "unit/engine/test_reconcile.py",
    ),
    Mutant(
        "engine/recovery/recovery.py",
        "verified = None if stream.policies.verify is VerifyLevel.NONE else stream.format.invisible",
        "verified = None if stream.policies.verify is VerifyLevel.NONE else True",
        "a visible load counts as verified although its run ended before it was",
        "unit/engine/test_standing.py",
    ),
    Mutant(
        "engine/planner.py",
        "alone = known.number == since.sequence and all(",
        "alone = all(",
        "events represent rows of a history that something else wrote",
        "unit/engine/test_fence.py",
    ),
    Mutant(
        "engine/publish.py",
        "if table.position is not None and table.position.load_id == plan.load_id:",
        "if table.position is not None:",
        "a commit that was refused counts as published, because another load is there",
        "unit/engine/test_publish.py",
    ),
    Mutant(
        "engine/verification/proof.py",
        "if source != table and again() != table:",
        "if source.rows != table.rows and again() != table:",
        "rows with other values than at the source are published",
        "unit/engine/test_verify.py",
    ),
    Mutant(
        "engine/deletes/key_diff.py",
        "key_census(since.state) == census",
        "key_census(since.state) is not None",
        "keys that were deleted stay in the table once keys have been compared",
        "unit/engine/test_key_diff.py",
    ),
    Mutant(
        "engine/deletes/delete_guard.py",
        "return known == 0 and not work.probe.stats(Everything()).rows",
        "return False",
        "an empty source empties the table without permission",
        "unit/engine/test_key_diff.py",
    ),
    Mutant(
        "engine/quarantine/superseded.py",
        'older = f"{validation.META}load < {number}"',
        'older = f"{validation.META}load <= {number}"',
        "rows that a load quarantines are released by the same load, and so lost",
        "unit/engine/test_superseding.py",
    ),
    Mutant(
        "engine/retention.py",
        "known.begin >= kept.begin",
        "known.begin == kept.begin",
        "a clock that was set back brings dropped rows back",
        "unit/engine/test_retention.py",
    ),
    Mutant(
        "engine/partitions.py",
        "since.schema != columns.digest or not ledger.vouched(since.state)",
        "not ledger.vouched(since.state)",
        "partitions of other columns count as unchanged",
        "unit/engine/test_standing.py",
    ),
    Mutant(
        "core/ledger.py",
        'return state.get("ledger") == self.digest',
        'return state.get("total") == str(self.total)',
        "a ledger counts whose rows lie in other partitions",
        "unit/core/test_ledger.py",
    ),
    Mutant(
        "core/fingerprint.py",
        '.replace("~", "~0")',
        "",
        "two different rows have one fingerprint",
        "unit/core/test_fingerprint.py",
    ),
    Mutant(
        "core/position_state.py",
        "for name, value in state.items() if name not in CLAIMS}",
        "for name, value in state.items() if name not in VOUCHER}",
        "a load that was never verified vouches for rows, files and keys",
        "unit/engine/test_standing.py",
    ),
    Mutant(
        "core/policies/schedule.py",
        "        began = min(began, now)\n",
        "",
        "a stream waits for hours after the clock was set back",
        "unit/core/test_schedule.py",
    ),
    Mutant(
        "strategies/watermark.py",
        "<= datetime.fromisoformat(upto) + TICK",
        "<= datetime.fromisoformat(upto) + timedelta(seconds=1)",
        "rows that are still written within the greatest second are never read",
        "unit/strategies/test_coarse_values.py",
    ),
    Mutant(
        "strategies/watermark.py",
        "if now == known:",
        "if _rows(now) == _rows(known):",
        "an update within the lookback is missed where it adds no row",
        "unit/strategies/test_watermark.py",
    ),
    Mutant(
        "strategies/_rechecks.py",
        "if kept.since > low:",
        "if False:",
        "a period of which no fingerprint is known counts as unchanged",
        "unit/strategies/test_rechecks.py",
    ),
    Mutant(
        "strategies/sequence.py",
        "if edge.generated is not None and edge.generated < int(value):",
        "if edge.generated is not None and edge.generated < 0:",
        "rows are missed whose numbers were set back",
        "unit/strategies/test_sequence.py",
    ),
    Mutant(
        "strategies/checksum.py",
        "[part for part, value in quick.items() if _quick(known, part) != value]",
        "[part for part, value in quick.items() if _quick(known, part) not in (None, value)]",
        "a partition counts as unchanged of which no quick hash is known",
        "unit/strategies/test_checksum_prefilter.py",
    ),
    Mutant(
        "strategies/snapshot_diff.py",
        "return self._confirming(changes, missed) if missed else None",
        "return None",
        "changes are missed of columns that no fingerprint covers",
        "unit/strategies/test_versions.py",
    ),
    Mutant(
        "dialects/postgresql/safe_bounds.py",
        "bound = min([settled, *(since for _, since in holding)])",
        "bound = settled",
        "rows above the safe bound are read, while open transactions write below it",
        "integration/source/test_edges.py",
    ),
    Mutant(
        "formats/iceberg/staging.py",
        "if not _shows(metadata, head):",
        "if False:",
        "a load counts as published that the catalog dropped",
        "unit/formats/test_iceberg.py",
    ),
    Mutant(
        "formats/delta/staging.py",
        "if other is not None or table.is_restore(commit):",
        "if other is not None:",
        "a load goes on over a RESTORE that came while it was written",
        "unit/formats/test_delta_restores.py",
    ),
    Mutant(
        "writers/merge.py",
        "order=(*cursor, *(name for name in self.order_by if name not in cursor))",
        "order=(*self.order_by, *(name for name in cursor if name not in self.order_by))",
        "an earlier row wins over a later one of its key",
        "unit/writers/test_order_by.py",
    ),
    Mutant(
        "formats/shared/statements.py",
        'return f"{text} WHEN NOT MATCHED{new} THEN INSERT',
        'return f"{text} WHEN NOT MATCHED THEN INSERT',
        "a row that was deleted is inserted again",
        "unit/core/test_deletes.py",
    ),
    Mutant(
        "writers/scd2/history.py",
        "IF({updated}, {touched}, NULL), {ended}), c ->",
        "IF({updated}, {touched}, NULL)), c ->",
        "a row that was deleted is current again once an earlier change of it arrives",
        "unit/writers/test_histories.py",
    ),
    Mutant(
        "spark/dataframe_ops.py",
        'f"{each} DESC NULLS LAST"',
        'f"{each} DESC NULLS FIRST"',
        "a row without a moment wins over those that have one",
        "unit/spark/test_row_statements.py",
    ),
    Mutant(
        "envelopes/_operations.py",
        'return padded(f"CAST({name} AS string)", WIDTH)',
        'return f"CAST({name} AS string)"',
        "event 9 is applied after event 10",
        "unit/spark/test_row_statements.py",
    ),
    Mutant(
        "registry/leases.py",
        "own = (leases.c.uid == self._uid) & (leases.c.token == self._token)",
        "own = leases.c.uid == self._uid",
        "a runner goes on after another one took its lease over",
        "integration/registry/test_sqlite.py",
    ),
    Mutant(
        "loaders/_cursor.py",
        'return f"{self.name} >= {self.literal(text)}"',
        'return f"{self.name} > {self.literal(text)}"',
        "rows are never loaded that came later with the watermark's own value",
        "unit/loaders/test_decisions.py",
    ),
    Mutant(
        "core/source_columns.py",
        "    if before is None or ids is None or before.relation != ids.relation:",
        "    if before is None or ids is None:",
        "columns of a recreated table are taken for those that had their numbers",
        "unit/engine/test_planner.py",
    ),
    Mutant(
        "core/source_columns.py",
        "was.use is Use.EXCLUDED and not ids.takes(was.name)",
        "False",
        "a column that must not be read is read by the name of another",
        "matrix/test_columns.py",
    ),
    Mutant(
        "engine/planner.py",
        "unwritten=_unwritten(stream, table, columns, evolve)",
        "unwritten=()",
        "the cheaper write erases values of columns that the source has no more",
        "unit/engine/test_planner.py",
    ),
    Mutant(
        "engine/load_history.py",
        " and registry.descends(uid, facts[LOAD])",
        "",
        "a proof of a version that was rolled back vouches for the one that is shown",
        "unit/engine/test_load_history.py",
    ),
    Mutant(
        "registry/positions.py",
        "    if vouched:\n        mark_discontinued(connection, uid, None)",
        "    if vouched and position is None:\n        mark_discontinued(connection, uid, None)",
        "a source that a person vouches for is refused for ever",
        "unit/registry/test_store.py",
    ),
    Mutant(
        "sources/change_log/slot/events.py",
        "if relation.identity != WHOLE_ROW and (not identity or self._keys != identity):",
        "if False:",
        "what identifies the rows of a log is asked before a load alone, and not of the log itself",
        "unit/sources/test_slot_events.py",
    ),
)
