"""Chooses streams by name, pattern, tag and state, as `--select` and `--exclude` state them.

A selector is a glob over names, `tag:` with a glob, or `state:` with one of `STATES`; with commas between several of
them all must hold. Choosing nothing is an error.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypedDict

from tidegate.config import StreamConfig
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError
from tidegate.registry.values import StreamStatus

STATES = ("failed", "new", "stale")
FAILED = frozenset({"failed", "stopped", "interrupted"})
STALE_AFTER = timedelta(days=1)
"""For a stream without a schedule."""
SHOWN = 20


class Selectors(TypedDict, total=False):
    """Keyword arguments of every call that takes streams: selectors, one or several.

    A pattern of names, `tag:NAME`, `state:failed`, `state:stale` or `state:new`; with commas all of them must hold.
    `select` adds streams to those that are named, `exclude` takes streams away.
    """

    select: str | Sequence[str] | None
    exclude: str | Sequence[str] | None


def _several(selectors: str | Sequence[str] | None) -> tuple[str, ...]:
    return (selectors,) if isinstance(selectors, str) else tuple(selectors or ())


def _nothing() -> Sequence[StreamStatus]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which streams of a project are meant: those that are named or selected, else all, without those excluded.

    Args:
        names: of streams; each has to be there.
        select, exclude: selectors; a stream is meant if one of them holds.
        options: of the strategy, stated for this call alone; they win over the stream's own.
        statuses: what the registry knows of the streams; asked only for a selector of a state.
    """

    names: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    statuses: Callable[[], Sequence[StreamStatus]] = _nothing

    @classmethod
    def of_texts(cls, names: tuple[str, ...], chosen: Selectors, **more: Any) -> Self:
        select, exclude = _several(chosen.get("select")), _several(chosen.get("exclude"))
        return cls(names=names, select=select, exclude=exclude, **more)

    def may_expand(self, pattern: str) -> bool:
        """Whether a pattern can stand for a stream that is meant."""
        return bool(self.select) or not self.names or any(fnmatch.fnmatchcase(name, pattern) for name in self.names)

    def of(self, entries: Iterable[StreamConfig]) -> list[StreamConfig]:
        """The streams that are meant, in their order.

        Raises:
            ConfigError: a name that no stream has, a state that there is not, or nothing is left.
        """
        streams = list(entries)
        known = {each.stream: each for each in self.statuses()} if self._asks_for_states else {}
        self._refuse_unknown(streams)
        meant = [
            entry
            for entry in streams
            if self._takes(entry, known.get(entry.name))
            and not any(_holds(each, entry, known.get(entry.name)) for each in self.exclude)
        ]
        if not meant:
            raise ConfigError(
                f"{self} {'selects' if self.select or self.names else 'leaves'} no stream; there are: "
                f"{_shown(streams, known)}",
                hint="`tidegate check` lists the streams, `tidegate status` their last runs.",
            )
        return meant

    def among(self, statuses: Sequence[StreamStatus], entries: Sequence[StreamConfig]) -> list[StreamStatus]:
        """Those of the streams that are meant, of all that the registry knows; without a choice all of them.

        Raises:
            ConfigError: as `of`.
        """
        if not (self.names or self.select or self.exclude):
            return list(statuses)
        found = ((status, _entry_of(status.stream, entries)) for status in statuses)
        known = {entry.name: status for status, entry in found if entry is not None}
        unseen = [entry for entry in entries if entry.name not in known and not entry.is_pattern]
        patterns = [_entry_of(name, entries) for name in known]
        meant = self.of([*(entry for entry in patterns if entry is not None), *unseen])
        return [known[entry.name] for entry in meant if entry.name in known]

    def __str__(self) -> str:
        given = [*self.names, *(f"--select {each!r}" for each in self.select)]
        return " ".join([*given, *(f"--exclude {each!r}" for each in self.exclude)])

    @property
    def _asks_for_states(self) -> bool:
        return any(part.startswith("state:") for each in (*self.select, *self.exclude) for part in each.split(","))

    def _takes(self, entry: StreamConfig, status: StreamStatus | None) -> bool:
        if not self.names and not self.select:
            return True
        return entry.name in self.names or any(_holds(each, entry, status) for each in self.select)

    def _refuse_unknown(self, streams: Sequence[StreamConfig]) -> None:
        """Names that no stream has, and states that there are not."""
        there = [entry.name for entry in streams]
        selectors = (*self.select, *self.exclude)
        plain = [each for each in selectors if not re.search(r"[*?\[:,]", each)]
        missing = [name for name in self.names if name not in there]
        missing += [each for each in plain if not any(fnmatch.fnmatchcase(each, name) for name in there)]
        if missing:
            named = ", ".join(map(repr, missing))
            are = "is not a stream" if len(missing) == 1 else "are not streams"
            raise ConfigError(
                f"{named} {are} of this project; {suggest(missing[0], there)}",
                hint="`tidegate check` lists the streams.",
            )
        for each in selectors:
            for part in each.split(","):
                state = part.removeprefix("state:")
                if part != state and state not in STATES:
                    raise ConfigError(f"{part!r} is not a state of a stream; {suggest(state, STATES)}")


def _entry_of(name: str, entries: Sequence[StreamConfig]) -> StreamConfig | None:
    """The entry of a stream that ran, under its name; None for one that the project does not have."""
    own = next((entry for entry in entries if entry.name == name), None)
    pattern = next((entry for entry in entries if entry.is_pattern and fnmatch.fnmatchcase(name, entry.name)), None)
    return own or (replace(pattern, name=name) if pattern else None)


def _holds(selector: str, entry: StreamConfig, status: StreamStatus | None) -> bool:
    # A name may hold a comma.
    if fnmatch.fnmatchcase(entry.name, selector):
        return True
    return all(_is(part.strip(), entry, status) for part in selector.split(","))


def _is(part: str, entry: StreamConfig, status: StreamStatus | None) -> bool:
    method, found, value = part.partition(":")
    if found and method == "tag":
        return any(fnmatch.fnmatchcase(tag, value) for tag in entry.tags)
    if found and method == "state":
        return state_holds(value, entry, status, datetime.now(UTC))
    return fnmatch.fnmatchcase(entry.name, part)


def state_holds(state: str, entry: StreamConfig, status: StreamStatus | None, now: datetime) -> bool:
    """Whether a stream is in a state.

    `failed`: its last run ended with an error. `new`: it never ran. `stale`: no run succeeded since its `schedule:` was
    last due, or for a day where it has none.
    """
    ran = status is not None and status.last_outcome is not None
    if state == "new":
        return not ran
    if status is None:
        return state == "stale"
    if state == "failed":
        return status.last_outcome in FAILED
    since = status.last_success_at
    if since is None:
        return True
    ahead = since > _due(entry, now)  # the clock was set back: its real age is unknown
    return ahead or _due(entry, since) < now


def _due(entry: StreamConfig, since: datetime) -> datetime:
    return entry.schedule.after(since, since) if entry.schedule else since + STALE_AFTER


def _shown(streams: Sequence[StreamConfig], known: Mapping[str, StreamStatus]) -> str:
    """The streams by name, with their tags, and with the outcome of the last run where states were asked for."""

    def one(entry: StreamConfig) -> str:
        status = known.get(entry.name)
        facts = [f"tag:{tag}" for tag in entry.tags]
        facts += [status.last_outcome] if status is not None and status.last_outcome else []
        return f"{entry.name} ({', '.join(facts)})" if facts else entry.name

    rest = f" and {len(streams) - SHOWN} more" if len(streams) > SHOWN else ""
    return ", ".join(map(one, streams[:SHOWN])) + rest if streams else "none"
