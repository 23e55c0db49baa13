"""Validates the checks of a stream against its columns, and decides what a failed check does to a load.

Pure: never reads rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.display import counted
from tidegate.core.policies.rules import Judges, Lookup, MeasuredCheck, OnFail, Rule, RuleViolation, Scope
from tidegate.core.quarantine import REFUSED_EVENT
from tidegate.core.schema import Schema
from tidegate.errors import CheckFailed, ColumnMissing, ConfigError
from tidegate.spark import validation
from tidegate.spark.expressions import columns_of
from tidegate.spark.validation import Condition

ENDINGS = {OnFail.STOP: "", OnFail.QUARANTINE: "; not loaded, quarantined", OnFail.WARN: "; loaded, with a warning"}


def refuse_rules(name: str, rules: Sequence[Rule], columns: Schema) -> None:
    """Refuses checks that cannot be applied to these columns.

    Raises:
        ColumnMissing: a column that is not there; the nearest one is named.
        ConfigError: values that do not fit a column, or rows set aside by a rule that judges them as a whole.
    """
    for rule in rules:
        missing = [each for each in rule.check.columns if _absent(each, columns, rule)]
        missing += [each for each in (columns_of(rule.where) if rule.where else ()) if _absent(each, columns)]
        if missing:
            near = difflib.get_close_matches(missing[0], columns.names, n=1, cutoff=0.5)
            nearest = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(columns.names)}"
            raise ColumnMissing(
                f"stream {name!r}: check {rule.name} names the column {missing[0]!r}, which does not exist; {nearest}",
                hint="Correct `checks:` in tidegate.yaml, then run `tidegate check --source`.",
                column=missing[0],
                rule=rule.name,
            )
        if rule.on_fail is OnFail.QUARANTINE and rule.check.judges is Judges.AGGREGATE:
            raise ConfigError(
                f"stream {name!r}: check {rule.name} evaluates the rows as a whole, so no single row can be "
                f"quarantined",
                hint="Use `on_fail: stop` or `on_fail: warn`.",
            )
        rule.check.refuse(columns)


def _absent(column: str, columns: Schema, rule: Rule | None = None) -> bool:
    if rule is None or getattr(rule.check, "any_case", False):
        # Spark's own expressions name columns in any case.
        return column.casefold() not in {name.casefold() for name in columns.names}
    return columns.find(column) is None


def conditions(rules: Sequence[Rule], columns: Schema) -> list[Condition]:
    """The rules of single rows, compiled; a lookup is a condition on the columns that `with_lookup` adds."""
    found = []
    for rule in rules:
        check = rule.check
        if check.judges is Judges.AGGREGATE:
            continue
        if check.judges is Judges.ROW:
            good = check.conditions(columns)
        else:
            good = {check.columns: validation.found(rule.name, check.columns)}
        found.append(
            Condition(
                rule=rule.name, reason=rule.redact(check.reason()), on_fail=rule.on_fail, good=good, where=rule.where
            )
        )
    return found


def lookups(rules: Sequence[Rule]) -> list[tuple[Rule, Lookup]]:
    """The checks that look up rows in other tables."""
    return [(rule, rule.check) for rule in rules if rule.check.judges is Judges.LOOKUP]


def measured(rules: Sequence[Rule], scope: Scope) -> list[tuple[Rule, MeasuredCheck]]:
    """The checks that evaluate rows as a whole."""
    found = ((rule, rule.check) for rule in rules if rule.check.judges is Judges.AGGREGATE)
    return [(rule, check) for rule, check in found if check.scope is scope]


def settle(stream: str, broken: Sequence[RuleViolation], read: int | None) -> tuple[str, ...]:
    """Notes about failed checks that do not stop a load.

    Raises:
        CheckFailed: one of them does; every rule that stops it is named, and no value of a row.
    """
    stopping = [each for each in broken if each.on_fail is OnFail.STOP]
    if stopping:
        first = stopping[0]
        of = f" ({counted(read, 'row', 'were')} read)" if read is not None else ""
        raise CheckFailed(
            f"stream {stream!r} stopped: "
            + "; ".join(each.sentence for each in stopping)
            + f"{of}; nothing was published",
            hint=f"{_cure(first)}, then run `tidegate run STREAM`.",
            rule=first.rule,
            column=", ".join(first.columns),
            rows=first.rows,
        )
    return tuple(each.sentence + ENDINGS[each.on_fail] for each in broken)


def _cure(broken: RuleViolation) -> str:
    if broken.rule == REFUSED_EVENT:
        return "Load the other events with `strategy: {kind: cdc, bad_events: quarantine}`"
    if broken.rows is not None:
        return "Correct the rows at the source, or load the other rows with `on_fail: quarantine`"
    return "Check the source; if the rows are right, change the check"


def renamed(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, of which no two have one name."""
    seen: dict[str, int] = {}
    found = []
    for rule in rules:
        seen[rule.name] = seen.get(rule.name, 0) + 1
        again = seen[rule.name]
        found.append(rule if again == 1 else replace(rule, name=f"{rule.name} #{again}"))
    return tuple(found)
