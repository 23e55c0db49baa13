"""The decorator that makes assets of streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    PartitionsDefinition,
    RetryPolicy,
    multi_asset,
)

from tidegate.errors import ConfigError
from tidegate_dagster import checks
from tidegate_dagster.partitions import refuse_partitions
from tidegate_dagster.project import TidegateProject
from tidegate_dagster.translator import STREAM, TidegateTranslator


def tidegate_assets(  # noqa: PLR0913 - the options of `multi_asset`
    *,
    project: TidegateProject | Path | str,
    translator: TidegateTranslator | None = None,
    name: str | None = None,
    partitions_def: PartitionsDefinition[Any] | None = None,
    backfill_policy: BackfillPolicy | None = None,
    retry_policy: RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    pool: str | None = None,
) -> Callable[[Callable[..., Any]], AssetsDefinition]:
    """Makes one asset of each stream of a project, with its checks; any part of them can be materialized.

    Args:
        project: its folder, or a `TidegateProject` that also selects streams.
        translator: how a stream becomes an asset.
        name: of the step; that of the function otherwise.
        partitions_def: time windows in UTC, for streams with a cursor of time, `write: merge` and a key. A
            materialization of partitions is a `tidegate backfill` of their range, after a run if the table has not
            reached its end. A backfill of Dagster is one such range, unless `backfill_policy` says otherwise.

    Raises:
        ConfigError: the project is not valid, or two streams have one asset key.
        Incompatible: a stream cannot have these partitions.

    Example:
        @tidegate_assets(project="warehouse")
        def warehouse(context: AssetExecutionContext, tidegate: TidegateResource):
            yield from tidegate.run(context)
    """
    place, translator = TidegateProject.of(project), translator or TidegateTranslator()
    streams = place.streams()
    if partitions_def is not None:
        refuse_partitions(partitions_def, streams)
        backfill_policy = backfill_policy or BackfillPolicy.single_run()
    specs = {each.name: translator.get_asset_spec(each) for each in streams}
    _refuse_lost(specs)
    return multi_asset(
        name=name,
        specs=list(specs.values()),
        check_specs=[check for each in streams for check in checks.specs(each.stream, specs[each.name].key)],
        can_subset=True,
        partitions_def=partitions_def,
        backfill_policy=backfill_policy,
        retry_policy=retry_policy,
        op_tags=op_tags,
        pool=pool,
    )


def _refuse_lost(specs: Mapping[str, AssetSpec]) -> None:
    """Refuses assets of which nobody could tell which stream they are.

    Raises:
        ConfigError: two streams with one key, or an asset without its stream's name.
    """
    taken: dict[AssetKey, str] = {}
    for stream, spec in specs.items():
        other = taken.setdefault(spec.key, stream)
        if other != stream:
            raise ConfigError(
                f"streams {other!r} and {stream!r} have the same asset key {spec.key.to_user_string()!r}",
                hint="Give each stream its own in `TidegateTranslator.get_asset_key`.",
            )
        if STREAM not in spec.metadata:
            raise ConfigError(
                f"the asset of stream {stream!r} has no metadata {STREAM!r}, so it is not known which stream to load",
                hint="Keep the metadata that `TidegateTranslator.get_metadata` returns.",
            )
