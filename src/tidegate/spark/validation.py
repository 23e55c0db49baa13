"""Separates valid from invalid rows in one pass, and stores invalid rows as text from which they can be restored.

Written as SQL text, which classic and Connect sessions both accept. The text keeps every digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Latest
from tidegate.core.log import CLEARS, ORIGIN, RAW, REFUSED, UNKNOWN
from tidegate.core.policies.rules import OnFail
from tidegate.core.quarantine import COLUMNS, FIELDS, FORGOTTEN_AFTER, REFUSED_EVENT, RowText
from tidegate.core.schema import Schema
from tidegate.spark import dataframe_ops
from tidegate.spark.dataframe_ops import DELETED, RANK
from tidegate.spark.sql import quote, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ERRORS = "__tidegate_errors"
"""Array of structs `rule`, `reason`, `on_fail`: every rule that the row breaks."""
META = "__tidegate_"
PASSES = "__tidegate_passes"
WAITS = f"{META}until IS NULL"
PASSED = f"{WAITS} AND {PASSES}"
STAYS = f"{WAITS} AND NOT {PASSES}"
REPLAY_COUNTS = (f"count_if({PASSED})", f"count_if({STAYS})")
BROKEN = f"count_if(exists({ERRORS}, e -> e.on_fail = '{OnFail.QUARANTINE}'))"
WARNED = (
    f"count_if(exists({ERRORS}, e -> e.on_fail = '{OnFail.WARN}') "
    f"AND NOT exists({ERRORS}, e -> e.on_fail = '{OnFail.QUARANTINE}'))"
)
BAD = f"exists({ERRORS}, e -> e.on_fail = '{OnFail.QUARANTINE}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One rule of rows, compiled.

    Args:
        good: conditions by the columns that they need; a row breaks the rule if one is false whose columns are known.
        where: only rows for which it is true are looked at.
    """

    rule: str
    reason: str
    on_fail: OnFail
    good: Mapping[tuple[str, ...], str]
    where: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.good for name in names))


def annotated(rows: DataFrame, conditions: Sequence[Condition], *, refused: OnFail) -> DataFrame:
    """The rows with `ERRORS`, empty for a good one.

    Args:
        refused: what becomes of events that could not be taken.
    """
    there = set(rows.columns)
    cases = [_case(each, there) for each in conditions]
    if REFUSED in there:
        cases.append(
            f"CASE WHEN {REFUSED} IS NOT NULL THEN named_struct('rule', '{REFUSED_EVENT}', 'reason', {REFUSED}, "
            f"'on_fail', '{refused}') END"
        )
    none = "CAST(NULL AS struct<rule: string, reason: string, on_fail: string>)"
    return rows.selectExpr("*", f"filter(array({', '.join([*cases, none])}), e -> e IS NOT NULL) AS {ERRORS}")


def _case(condition: Condition, there: set[str]) -> str:
    asked = [f"({condition.where})"] if condition.where else []
    asked += [f"{name} IS NULL" for name in (REFUSED,) if name in there]
    asked += [f"NOT coalesce({name}, false)" for name in (DELETED, CLEARS) if name in there]
    broken = " OR ".join(_broken(good, columns, there) for columns, good in condition.good.items())
    error = f"'rule', {string(condition.rule)}, 'reason', {string(condition.reason)}, 'on_fail', '{condition.on_fail}'"
    return f"CASE WHEN {' AND '.join([*asked, f'({broken})'])} THEN named_struct({error}) END"


def _broken(good: str, columns: Sequence[str], there: set[str]) -> str:
    """The condition that a row is not good, by columns that it carries."""
    if UNKNOWN not in there or not columns:
        return f"NOT ({good})"
    named = ", ".join(map(string, columns))
    return f"(NOT coalesce(arrays_overlap({UNKNOWN}, array({named})), false) AND NOT ({good}))"


def with_lookup(rows: DataFrame, there: DataFrame, rule: str, columns: Sequence[str]) -> DataFrame:
    """The rows, and whether their values of these columns are among `there`."""
    flagged = there.selectExpr(*map(quote, columns)).distinct().selectExpr("*", f"true AS {_flag(rule)}")
    return rows.join(flagged, on=list(columns), how="left")


def found(rule: str, columns: Sequence[str]) -> str:
    """The condition of rows whose values are among those that `with_lookup` was given, or hold a NULL."""
    nulls = " OR ".join(f"{quote(name)} IS NULL" for name in columns)
    return f"{nulls} OR {_flag(rule)} IS NOT NULL"


def _flag(rule: str) -> str:
    return quote(f"{META}there {rule}")


def filtered(aggregates: Sequence[str], where: str | None) -> tuple[str, ...]:
    """The aggregates over the rows for which a condition is true."""
    return tuple(f"{each} FILTER (WHERE {where})" if where else each for each in aggregates)


def breaking(rule: str) -> str:
    """The number of rows that break the rule, as an aggregate."""
    return f"count_if(exists({ERRORS}, e -> e.rule = {string(rule)}))"


def measured(rows: DataFrame, aggregates: Sequence[str]) -> list[Any]:
    """The aggregates over the rows, by one pass."""
    asked = (f"{aggregate} AS a{number}" for number, aggregate in enumerate(aggregates))
    return list(rows.selectExpr(*asked).collect()[0])


def good(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows of `annotated` that are loaded, with these columns."""
    return rows.where(f"NOT {BAD}").selectExpr(*map(quote, columns))


def bad(  # noqa: PLR0913 - the rows, and what is kept of them
    rows: DataFrame,
    text: RowText,
    rule: Latest | None,
    stamp: Sequence[str],
    *,
    log_order: str | None = None,
    each: bool = False,
) -> DataFrame:
    """The rows of `annotated` that are not loaded, as the quarantine keeps them.

    Args:
        rule: tells the last row of each key; None where no two rows have one.
        stamp: SQL of `load`, `load_id` and `at`.
        log_order: SQL of an event's order; None where rows are no events.
        each: every row waits, whether or not it is the last one of its key.
    """
    load, load_id, at = stamp
    there = set(rows.columns)
    lacks = f"CASE WHEN size({UNKNOWN}) > 0 THEN to_json({UNKNOWN}) END" if UNKNOWN in there else "CAST(NULL AS string)"
    ranked = rows if rule is None else dataframe_ops.ranked(rows, rule)
    last = "true" if rule is None else f"{RANK} = 1"
    keyed = " AND ".join(f"{quote(name)} IS NOT NULL" for name in rule.key) if rule else "false"
    quarantining = f"filter({ERRORS}, e -> e.on_fail = '{OnFail.QUARANTINE}')"
    whole = f"{REFUSED} IS NULL" if REFUSED in there else "true"
    return ranked.where(BAD).selectExpr(
        f"{load} AS load",
        f"{load_id} AS load_id",
        f"{at} AS at",
        # A later row of its key came with it, so nobody waits for this one.
        "CAST(NULL AS bigint) AS until" if each else f"CASE WHEN NOT {last} AND {keyed} THEN {load} END AS until",
        f"{last} AS last",
        f"array_join(transform({quarantining}, e -> e.rule), ', ') AS rule",
        f"array_join(transform({quarantining}, e -> e.reason), '; ') AS reason",
        f"{ORIGIN if ORIGIN in there else 'CAST(NULL AS string)'} AS origin",
        f"CASE WHEN {whole} THEN {text.pack} END AS row",
        f"{RAW if RAW in there else 'CAST(NULL AS string)'} AS raw",
        f"{log_order or 'CAST(NULL AS string)'} AS log_order",
        f"{lacks} AS lacks",
        "CAST(NULL AS timestamp) AS ended",
    )


def unpacked(kept: DataFrame, text: RowText) -> DataFrame:
    """Rows of a quarantine with the columns that they had, and its own columns behind `META`.

    A column that a row did not have is NULL.
    """
    parsed = kept.selectExpr(
        *(f"{quote(each.name)} AS {META}{each.name}" for each in COLUMNS), f"{text.parse} AS {FIELDS}"
    )
    return parsed.selectExpr(*(f"{META}{each.name}" for each in COLUMNS), *text.values)


def repacked(rows: DataFrame) -> DataFrame:
    """The inverse of `unpacked`."""
    return rows.selectExpr(*(f"{META}{each.name} AS {quote(each.name)}" for each in COLUMNS))


def landed(kept: DataFrame, number: int) -> DataFrame:
    """The rows of loads up to that number; one that a later load took back is waiting still.

    Without those that have not waited for `FORGOTTEN_AFTER` loads.
    """
    until = f"CASE WHEN until <= {number} THEN until END AS until"
    columns = [until if each.name == "until" else quote(each.name) for each in COLUMNS]
    known = f"until IS NULL OR until > {number - FORGOTTEN_AFTER}"
    return kept.where(f"load <= {number} AND ({known})").selectExpr(*columns)


def with_names(kept: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Rows of a quarantine whose columns have other names; old names to new ones.

    A name and a colon behind it are a key of the text: within a value a quote is escaped.
    """
    if not names:
        return kept
    row, lacks = "row", "lacks"
    for old, new in names.items():
        row = _replaced(row, rf'([{{,])"{_pattern(old)}":', f'$1"{_plain(new)}":')
        lacks = _replaced(lacks, rf'([\[,])"{_pattern(old)}"(?=[,\]])', f'$1"{_plain(new)}"')
    texts = {"row": row, "lacks": lacks}
    mark = string(f'"{_RENAMED}')
    changed = (
        f"replace({texts[each.name]}, {mark}, '\"') AS {each.name}" if each.name in texts else quote(each.name)
        for each in COLUMNS
    )
    return kept.selectExpr(*changed)


_RENAMED = "\x01"
"""What a new name begins with until all are replaced; no JSON has it as it is."""


def _replaced(value: str, pattern: str, new: str) -> str:
    return f"regexp_replace({value}, {string(pattern)}, {string(new)})"


def _pattern(name: str) -> str:
    return re.escape(json.dumps(name, ensure_ascii=False)[1:-1])


def _plain(name: str) -> str:
    """The name within JSON, as what takes the place of a pattern."""
    text = json.dumps(name, ensure_ascii=False)[1:-1].replace("\\", "\\\\").replace("$", "\\$")
    return f"{_RENAMED}{text}"


def closed(rows: DataFrame, condition: str, number: int) -> DataFrame:
    """Rows of `unpacked`: those that wait and fulfil the condition do so until that load."""
    there = f"CASE WHEN {META}until IS NULL AND coalesce({condition}, false) THEN {number} ELSE {META}until END"
    names = [f"{there} AS {name}" if name == f"{META}until" else quote(name) for name in rows.columns]
    return rows.selectExpr(*names)


def replayable(rows: DataFrame, key: Sequence[str], *, complete: bool = False) -> DataFrame:
    """Rows of `annotated` and `unpacked` with `PASSES`: a whole row that breaks no rule and has a key.

    Args:
        complete: an event that does not carry every column stays, because a version needs them all.
    """
    whole = [f"{META}row IS NOT NULL", f"NOT exists({ERRORS}, e -> e.on_fail <> '{OnFail.WARN}')"]
    whole += [f"{quote(name)} IS NOT NULL" for name in key]
    whole += [f"{META}lacks IS NULL"] if complete else []
    return rows.selectExpr("*", f"{' AND '.join(whole)} AS {PASSES}")


def broken_now(rows: DataFrame) -> dict[str, int]:
    """Rows of `replayable` that wait on, by what they break."""
    rules = f"coalesce(nullif(array_join(transform({ERRORS}, e -> e.rule), ', '), ''), {META}rule) AS rule"
    found = rows.where(STAYS).selectExpr(rules).groupBy("rule").count().collect()
    return {row[0]: row[1] for row in sorted(found)}


def named(columns: Schema) -> list[str]:
    return [quote(name) for name in columns.names]


def stale(kept: DataFrame, after: DataFrame) -> bool:
    """Whether what the quarantine holds and what it should hold differ."""
    asked = ("count(*)", "count_if(until IS NULL)", "sum(until)", "count_if(until IS NULL AND ended IS NOT NULL)")
    return measured(kept, asked) != measured(after, asked)
