"""How a stream becomes an asset; subclass it to change keys, groups, texts, tags, owners or automation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dagster import AssetDep, AssetKey, AssetSpec, AutomationCondition, FreshnessPolicy
from dagster._utils.schedules import get_smallest_cron_interval

from tidegate.core.policies.schedule import Schedule
from tidegate_dagster.project import StreamProps

STREAM, UID, TARGET = "tidegate/stream", "tidegate/uid", "dagster/table_name"
_TAG = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_OWNER = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_SHORTEST = timedelta(minutes=1)


class TidegateTranslator:
    """The asset of a stream: `get_asset_spec` asks the other methods, each of which can be overridden.

    Args:
        freshness: whether a stream with a `schedule:` gets a freshness policy. Dagster measures freshness by
            materializations, and a run that finds nothing new is none: only for streams that always have changes.

    Example:
        class Translator(TidegateTranslator):
            def get_group_name(self, props: StreamProps) -> str:
                return props.stream.target.namespace[0]
    """

    def __init__(self, *, freshness: bool = False) -> None:
        self.freshness = freshness

    def get_asset_spec(self, props: StreamProps) -> AssetSpec:
        """The asset; `tidegate/stream` and `tidegate/uid` in its metadata say which stream it is."""
        return AssetSpec(
            key=self.get_asset_key(props),
            deps=self.get_deps(props),
            group_name=self.get_group_name(props),
            description=self.get_description(props),
            tags=self.get_tags(props),
            owners=self.get_owners(props),
            kinds=self.get_kinds(props),
            automation_condition=self.get_automation_condition(props),
            freshness_policy=self.get_freshness_policy(props),
            metadata=self.get_metadata(props),
            code_version=props.stream.uid,
            skippable=True,
        )

    def get_asset_key(self, props: StreamProps) -> AssetKey:
        """The stream's name, its dots as levels: a renamed stream is another one, and gets another asset."""
        return AssetKey(props.name.split("."))

    def get_deps(self, props: StreamProps) -> list[AssetDep]:  # noqa: ARG002 - for those who override it
        """The assets that it is loaded from; none."""
        return []

    def get_group_name(self, props: StreamProps) -> str | None:  # noqa: ARG002 - as above
        """The group; Dagster's default one."""
        return None

    def get_description(self, props: StreamProps) -> str | None:
        """Where its rows come from and how."""
        stream = props.stream
        return (
            f"Loads {stream.source_name} into {stream.target} (strategy {stream.strategy.kind}, "
            f"write {stream.writer.kind}, verify {stream.policies.verify})."
        )

    def get_tags(self, props: StreamProps) -> Mapping[str, str]:
        """The stream's `tags:` that Dagster takes as such, without values."""
        return {each: "" for each in props.entry.tags if _TAG.fullmatch(each)}

    def get_owners(self, props: StreamProps) -> list[str]:
        """The stream's `owner:`: a mail address, or else the name of a team."""
        owner = props.entry.owner
        if not owner:
            return []
        return [owner if _OWNER.fullmatch(owner) or owner.startswith("team:") else f"team:{owner}"]

    def get_kinds(self, props: StreamProps) -> set[str]:
        """Shown beside the asset: Tidegate and the table's format."""
        return {"tidegate", props.format}

    def get_automation_condition(
        self,
        props: StreamProps,  # noqa: ARG002 - as above
    ) -> AutomationCondition[AssetKey] | None:
        """When Dagster materializes it by itself; never."""
        return None

    def get_freshness_policy(self, props: StreamProps) -> FreshnessPolicy | None:
        """Of a stream with a `schedule:`, if asked for: late after one turn without new rows, failed after two."""
        schedule = props.stream.policies.schedule
        return freshness_of(schedule) if self.freshness and schedule is not None else None

    def get_metadata(self, props: StreamProps) -> Mapping[str, Any]:
        """Identity and settings of the stream; `dagster/table_name` is the table's name in the lake."""
        stream = props.stream
        return {
            STREAM: stream.name,
            UID: stream.uid,
            TARGET: str(stream.target),
            "tidegate/source": stream.source_name,
            "tidegate/strategy": stream.strategy.kind,
            "tidegate/write": stream.writer.kind,
            "tidegate/verify": str(stream.policies.verify),
        }


def freshness_of(schedule: Schedule) -> FreshnessPolicy:
    """The freshness policy of a schedule; windows are at least a minute, the least that Dagster takes."""
    if schedule.cron is not None:
        between = get_smallest_cron_interval(schedule.cron)
        return FreshnessPolicy.cron(deadline_cron=schedule.cron, lower_bound_delta=between)
    every = max(schedule.every or _SHORTEST, _SHORTEST)
    return FreshnessPolicy.time_window(fail_window=2 * every, warn_window=every)
