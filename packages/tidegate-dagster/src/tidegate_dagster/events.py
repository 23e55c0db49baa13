"""What Dagster is told of a run: a materialization only of rows that were loaded, and verified where that was asked.

Everything else is an observation, or the failure of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetKey,
    AssetObservation,
    MaterializeResult,
    MetadataValue,
    Output,
    TableColumn,
    TableColumnConstraints,
    TableSchema,
)
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION as SILENT

from tidegate.cli.documents import Document
from tidegate.engine.stream import VerifyLevel
from tidegate.results import TableView
from tidegate_dagster import checks

AssetEvent = MaterializeResult[Any] | AssetObservation | AssetCheckResult | Output[None]
COUNTS = ("rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_quarantined", "rows_warned", "bytes_read")
MOVED = ("rows_inserted", "rows_updated", "rows_deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAsset:
    """The asset of a stream in one step.

    Args:
        output: the step's output for it, which downstream steps of the run wait for; None where only its checks run.
        level: the stream's `verify:`.
        rules: the name of the asset check for each rule; of those that are selected.
        verified: whether the check of verification is selected.
    """

    key: AssetKey
    stream: str
    uid: str
    output: str | None
    level: VerifyLevel
    rules: Mapping[str, str]
    verified: bool


def is_loaded(outcome: Document, level: VerifyLevel) -> bool:
    """Whether a run has changed the table, and proven what was asked to be proven.

    A commit that moved no row, which creates an empty table, has nothing to compare.
    """
    if outcome["outcome"] != "loaded" or outcome["error"] is not None:
        return False
    proven = outcome["verified"] is True or level is VerifyLevel.NONE
    return proven or not (outcome["rows_read"] or any(outcome[name] for name in MOVED))


def of_run(outcome: Document, asset: StreamAsset, view: TableView | None) -> Iterator[AssetEvent]:
    """The events of one stream's run.

    Args:
        outcome: the stream's entry of `run --json`.
        view: the table after the run; None where it cannot be described.
    """
    metadata = {**_of_outcome(outcome), **(of_table(view) if view else {})}
    if is_loaded(outcome, asset.level):
        yield MaterializeResult(asset_key=asset.key, metadata=metadata)
    else:
        yield AssetObservation(asset_key=asset.key, metadata=metadata)
        if outcome["outcome"] == "unchanged" and outcome["error"] is None and asset.output:
            yield unchanged(asset.output)
    yield from checks.results(outcome, asset.rules, asset.key)
    if asset.verified and (result := checks.verification(outcome, asset.level, asset.key)) is not None:
        yield result


def of_backfill(backfill: Document | None, outcome: Document | None, asset: StreamAsset) -> Iterator[AssetEvent]:
    """The events of partitions that are loaded.

    Args:
        backfill: the document of `backfill --json`; None where a run loaded all of them.
        outcome: of the run before it, if there was one.
    """
    metadata = _of_outcome(outcome) if outcome else {}
    if backfill is not None:
        metadata |= {
            "tidegate/from": backfill["begin"],
            "tidegate/to": backfill["end"],
            "tidegate/chunks": backfill["chunks_total"],
            "tidegate/rows_reloaded": backfill["rows_done"],
        }
    yield MaterializeResult(asset_key=asset.key, metadata=metadata)
    ran = outcome is not None and outcome["verified"] is True
    if asset.verified and (ran or (backfill is not None and backfill["rows_done"] > 0)):
        yield AssetCheckResult(
            asset_key=asset.key, check_name=checks.VERIFIED, passed=True, metadata={checks.LEVEL: str(asset.level)}
        )


def of_comparison(found: Document, asset: StreamAsset) -> Iterator[AssetEvent]:
    """The result of the check of verification, run by itself: the whole table against its source."""
    yield AssetCheckResult(
        asset_key=asset.key,
        check_name=checks.VERIFIED,
        passed=found["equal"] is True,
        metadata={
            checks.LEVEL: found["level"],
            **{f"tidegate/{name}": found[name] for name in ("source_rows", "target_rows") if found[name] is not None},
            "tidegate/columns_not_covered": list(found["columns_not_covered"]),
        },
    )


def unchanged(output: str) -> Output[None]:
    """Lets downstream steps of the run go on, without a materialization.

    Without it, Dagster would skip a step that depends on this asset and on another one that has changed.
    """
    return Output(None, output_name=output, metadata={SILENT: True})


def of_table(view: TableView) -> dict[str, Any]:
    """The table's metadata under Dagster's own keys."""
    columns = [
        TableColumn(name=each.name, type=each.type, constraints=TableColumnConstraints(nullable=each.nullable))
        for each in view.columns
    ]
    return {
        "dagster/table_name": view.target,
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns=columns)),
        **({"dagster/row_count": view.rows} if view.rows is not None else {}),
        **({"dagster/uri": MetadataValue.url(view.location)} if view.location else {}),
        **({"tidegate/version": view.version} if view.version else {}),
    }


def _of_outcome(outcome: Document) -> dict[str, Any]:
    known = {
        "outcome": outcome["outcome"],
        "strategy": outcome["strategy"],
        "write": outcome["write"],
        "verified": outcome["verified"],
        "snapshot": outcome["snapshot"],
        "loaded_through": (outcome["position"] or {}).get("loaded_through"),
        "seconds": outcome["seconds"].get("total"),
        **({} if outcome["error"] else {name: outcome[name] for name in COUNTS}),
    }
    found: dict[str, Any] = {f"tidegate/{name}": value for name, value in known.items() if value is not None}
    if outcome["notes"]:
        found["tidegate/notes"] = MetadataValue.json(list(outcome["notes"]))  # names of columns are no Markdown
    if outcome["seconds"]:
        found["tidegate/stages"] = MetadataValue.json(outcome["seconds"])
    if outcome["error"]:
        found |= {"tidegate/error": outcome["error"]["code"], "tidegate/hint": outcome["error"]["hint"]}
    return found
