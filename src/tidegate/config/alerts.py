"""The `alerts:` of a project: what people are told of, and by which channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tidegate.config.nodes import Node, Problems, from_values
from tidegate.config.options import read, without
from tidegate.core.addresses import in_the_clear
from tidegate.errors import ConfigError

WEBHOOKS = ("json", "xml", "form")
"""Schemes of Apprise that post to any URL over HTTP; with an `s` behind them over TLS."""
SHORTEST_REPEAT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Where messages are sent.

    Args:
        url: an address of Apprise, such as `mailto://` or `slack://`, from a reference: `${ALERTS_URL}`. All of it is a
            secret. Empty switches the channel off.
        tags: only incidents of streams that have one of these tags; with `owners`, either is enough.
        owners: only incidents of streams of these owners. Without `tags` and `owners`, all incidents.
        plain_http: send to a webhook in the clear, where others on the way can read its address and the messages.
    """

    url: str = field(repr=False)
    tags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    plain_http: bool = False

    def __post_init__(self) -> None:
        scheme = self.url.partition("://")[0].lower()
        if scheme in WEBHOOKS and not self.plain_http and in_the_clear(self.url):
            raise ConfigError(
                f"url: {scheme}:// sends the address, and any login in it, in the clear",
                hint=f"Write {scheme}s://…; or, where everybody on the way may read it, set `plain_http: true`.",
            )

    def takes(self, tags: tuple[str, ...], owner: str | None) -> bool:
        """Whether incidents of such a stream are sent here."""
        everything = not self.tags and not self.owners
        return everything or owner in self.owners or bool(set(tags) & set(self.tags))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRules:
    """What is an incident.

    Args:
        run_failed: the last run failed, or stopped and waits for a person.
        late: a stream missed a turn of its schedule.
        lag_over: the oldest event of a log that is not applied has been there for longer than this.
        no_data_for: no row was loaded for so long.
        failed_within: a load failed within this time, also if a later one went well.
        schema_changed: a load changed the table's columns, or stopped since the contract forbids it.
        checks_failed: a load stopped because rows broke a check.
        quarantine_over: more rows than this wait in quarantine.
        verification_differs: table and source differ.
        delete_guard: a load stopped because it would have deleted too many rows.
        maintenance_failed: the last maintenance failed.
        hook_failed: a hook of `after_publish:` failed in every attempt of the last run that tried it.
        query_slower: the queries that find and verify changes took this many times as long as usual.
    """

    run_failed: bool = True
    late: bool = True
    lag_over: timedelta | None = None
    no_data_for: timedelta | None = None
    failed_within: timedelta | None = None
    schema_changed: bool = True
    checks_failed: bool = True
    quarantine_over: int | None = None
    verification_differs: bool = True
    delete_guard: bool = True
    maintenance_failed: bool = True
    hook_failed: bool = True
    query_slower: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOptions:
    """The whole section.

    Args:
        channels: where messages are sent, by name.
        rules: what is an incident.
        repeat: the time after which an incident that goes on is told again.
        recovered: whether the end of an incident is told, too.
        absent: channels whose address is not there, and why; they are switched off.
    """

    channels: Mapping[str, Channel] = field(default_factory=dict)
    rules: AlertRules = AlertRules()
    repeat: timedelta = timedelta(hours=4)
    recovered: bool = True
    absent: Mapping[str, ConfigError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The keys of the section that are plain values."""

    repeat: timedelta = timedelta(hours=4)
    recovered: bool = True


def read_alerts(node: Node, absent: Mapping[str, ConfigError]) -> AlertOptions:
    """The section. Raises ConfigError with everything that is wrong with it."""
    problems = Problems()
    channels: dict[str, Channel] = {}
    rules, own = AlertRules(), _Own()
    with problems.kept():
        node.refuse_unknown(("channels", "rules", "repeat", "recovered"))
    for name, each in (node.get("channels") or _empty(node, "channels")).items.items():
        with problems.kept():
            channels[name] = read(Channel, each)
    with problems.kept():
        rules = read(AlertRules, node.get("rules") or _empty(node, "rules"))
    with problems.kept():
        own = read(_Own, without(node, *(node.items.keys() - {"repeat", "recovered"})))
        if own.repeat < SHORTEST_REPEAT:
            raise (node.get("repeat") or node).mark.error("must be 1m or more")
    problems.refuse()
    return AlertOptions(channels=channels, rules=rules, repeat=own.repeat, recovered=own.recovered, absent=absent)


def _empty(node: Node, key: str) -> Node:
    return from_values({}, (*node.mark.path, key))
