"""Asset checks: verification, and each rule of a stream. A check without an answer has no result, never a good one."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagster import AssetCheckResult, AssetCheckSeverity, AssetCheckSpec, AssetKey

from tidegate.core.policies.rules import OnFail, Rule
from tidegate.engine.stream import Stream, VerifyLevel

VERIFIED = "verified"
RULE, LEVEL = "tidegate/rule", "tidegate/level"
_SIMPLE = re.compile(r"\w+(\(\w+(, \w+)*\))?", re.ASCII)


def specs(stream: Stream, key: AssetKey) -> list[AssetCheckSpec]:
    """The checks of a stream: one for each rule, and `verified` unless it is loaded with `verify: none`."""
    rules, names = stream.policies.checks, names_of(stream.policies.checks)
    found = [
        AssetCheckSpec(
            name=names[rule.name],
            asset=key,
            description=f"{rule.name}; rows that fail it: {rule.on_fail}",
            blocking=rule.on_fail is OnFail.STOP,
            metadata={RULE: rule.name},
        )
        for rule in rules
    ]
    if stream.policies.verify is not VerifyLevel.NONE:
        verified = f"What a load moved is equal in source and table (verify: {stream.policies.verify})."
        if stream.policies.verify is VerifyLevel.COUNTS:
            verified = "A load moved as many rows as the source has (verify: counts); values are not compared."
        found.append(
            AssetCheckSpec(
                name=VERIFIED,
                asset=key,
                description=verified,
                blocking=True,
                metadata={LEVEL: str(stream.policies.verify)},
            )
        )
    return found


def names_of(rules: Sequence[Rule]) -> dict[str, str]:
    """The check's name for each rule: its letters and digits, and a digest wherever two rules could share them."""
    plain = {rule.name: re.sub(r"[^A-Za-z0-9]+", "_", rule.name).strip("_") for rule in rules}
    taken = Counter([*plain.values(), VERIFIED])
    return {
        name: short if _SIMPLE.fullmatch(name) and taken[short] == 1 else f"{short[:60]}_{_digest(name)}"
        for name, short in plain.items()
    }


def results(outcome: Mapping[str, Any], names: Mapping[str, str], key: AssetKey) -> Iterator[AssetCheckResult]:
    """What a run says of the checks: those that rows failed; of the others only if rows were loaded and judged.

    Args:
        outcome: a stream's entry of `run --json`.
        names: of the checks that may be reported, by rule.
    """
    failed: dict[str, list[Mapping[str, Any]]] = {}
    for each in outcome["checks_failed"]:
        failed.setdefault(each["rule"], []).append(each)
    judged = outcome["error"] is None and outcome["outcome"] == "loaded" and outcome["rows_read"] > 0
    for rule, name in names.items():
        if rule in failed:
            yield _failed(failed[rule], name, key)
        elif judged:
            yield AssetCheckResult(
                asset_key=key, check_name=name, passed=True, metadata={"tidegate/rows_judged": outcome["rows_read"]}
            )


def verification(outcome: Mapping[str, Any], level: VerifyLevel, key: AssetKey) -> AssetCheckResult | None:
    """Whether a run's rows were found equal to the source's; None where nothing was compared."""
    error = outcome["error"] or {}
    if error.get("code") == "verify_failed":
        return AssetCheckResult(
            asset_key=key,
            check_name=VERIFIED,
            passed=False,
            severity=AssetCheckSeverity.ERROR,
            description=error["message"],
            metadata={LEVEL: str(level)},
        )
    if outcome["verified"] is not True or error:
        return None
    return AssetCheckResult(asset_key=key, check_name=VERIFIED, passed=True, metadata={LEVEL: str(level)})


def _failed(found: Sequence[Mapping[str, Any]], name: str, key: AssetKey) -> AssetCheckResult:
    first, rows = found[0], [each["rows"] for each in found if each["rows"] is not None]
    stops = first["on_fail"] == OnFail.STOP
    return AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=False,
        severity=AssetCheckSeverity.ERROR if stops else AssetCheckSeverity.WARN,
        description=first["reason"],
        metadata={
            "tidegate/on_fail": first["on_fail"],
            "tidegate/columns": list(first["columns"]),
            **({"tidegate/rows_failed": sum(rows)} if rows else {}),
        },
    )


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
