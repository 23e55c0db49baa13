"""Cases about types: every value arrives as it was, and a change of any column is seen.

A column that breaks the load of all types together is found by loading each type alone.
"""

from __future__ import annotations

from itertools import count

from tidegate_scenarios.certification import Sample
from tidegate_scenarios.comparison import different_columns, different_rows
from tidegate_scenarios.report import State
from tidegate_scenarios.source_tables import SourceTable, Value
from tidegate_scenarios.streams import ONLY, TYPES
from tidegate_scenarios.trial import Trial

GROUP = "types"
CHANGED = 1000
"""From this key on, each row belongs to one column, whose value alone changes."""
FINDERS = ("types_snapshot_diff", "types_checksum", "types_prefilter")
NULL: Value = ("NULL", None)


def try_types(trial: Trial) -> None:
    """A case for each type and each way to find its changes."""
    table, samples = trial.tables[TYPES], trial.samples
    for sample in trial.kit.samples:
        if sample not in samples:
            reason = f"the server creates no column of type {sample.declaration}"
            trial.record(GROUP, sample.name, reason, state=State.NOT_SUPPORTED)
    if not _filled(trial, table, samples):
        return
    finders = trial.supported(*FINDERS)
    report = trial.run("types", *finders)
    if (error := report["types"].error) is not None:
        trial.record(GROUP, "all types in one table", str(error))
        _each_alone(trial, table, samples)
        return
    differences = different_columns(table.rows, trial.found("types") or (), table.key)
    trial.record(GROUP, "all types in one table", _of_rows(trial, table))
    for sample in samples:
        trial.record(GROUP, sample.name, differences.get(sample.name, ""))
    uncovered = _verified(trial)
    for number, sample in enumerate(samples, start=CHANGED):
        table.update((str(number), number), sample.name, sample.values[1])
    again = trial.run(*finders) if finders else report
    for stream in finders:
        error = report[stream].error or again[stream].error
        if error is not None:
            trial.record(GROUP, f"changes by {stream}", str(error))
        else:
            _changes(trial, table, stream, uncovered)


def _filled(trial: Trial, table: SourceTable, samples: tuple[Sample, ...]) -> bool:
    """Rows that combine the values of all types, one of NULL, and one for each column to change."""
    with trial.guarded(GROUP, "write the samples"):
        most = max(len(sample.values) for sample in samples)
        numbers = count()
        rows = [{sample.name: NULL for sample in samples}]
        rows += [{sample.name: sample.values[n % len(sample.values)] for sample in samples} for n in range(most)]
        for row in rows:
            table.insert(_keyed(next(numbers), row))
        for number, sample in enumerate(samples, start=CHANGED):
            table.insert(_keyed(number, {other.name: NULL for other in samples} | {sample.name: sample.values[0]}))
        return True
    return False


def _keyed(number: int, row: dict[str, Value]) -> dict[str, Value]:
    return {"id": (str(number), number), **row}


def _of_rows(trial: Trial, table: SourceTable) -> str:
    """What is wrong with the rows, whatever is in them."""
    keys: dict[int, dict[str, Value]] = {key: {} for key in table.rows}
    return different_rows(keys, trial.found("types") or (), table.key)


def _each_alone(trial: Trial, table: SourceTable, samples: tuple[Sample, ...]) -> None:
    report = trial.run(*(f"{ONLY}{sample.name}" for sample in samples))
    for sample in samples:
        stream = f"{ONLY}{sample.name}"
        error = report[stream].error
        found = different_columns(
            {key: {sample.name: row[sample.name]} for key, row in table.rows.items()},
            trial.found(stream) or (),
            table.key,
        )
        trial.record(GROUP, sample.name, str(error) if error else found.get(sample.name, ""))


def _verified(trial: Trial) -> tuple[str, ...]:
    """The columns that no fingerprint covers."""
    result = trial.project.verify("types")["types"]
    problem = str(result.error) if result.error else "" if result.equal else "verify finds a difference that is none"
    trial.record(GROUP, "verify compares the fingerprints of both sides", problem)
    return result.columns_not_covered


def _changes(trial: Trial, table: SourceTable, stream: str, uncovered: tuple[str, ...]) -> None:
    found = different_columns(table.rows, trial.found(stream) or (), table.key)
    for sample in trial.samples:
        missed = found.get(sample.name, "")
        unseen = bool(missed) and sample.name in uncovered and stream != FINDERS[0]
        trial.record(
            GROUP,
            f"{sample.name}: a change is found by {stream.removeprefix('types_')}",
            "no fingerprint covers the type" if unseen else missed,
            state=State.NOT_SUPPORTED if unseen else None,
        )
