"""Decides where tables may lie whose `target:` states a `location`.

Maintenance deletes every file below a table that no version of it knows. So no table lies within another one, nor
within a lake's warehouse, where other tables come to lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from tidegate.config import Config, StreamConfig
from tidegate.config.nodes import Problems
from tidegate.core.ids import Target
from tidegate.core.ports.format import Format


def placed(config: Config, lakes: Mapping[str, Format]) -> dict[str, Format]:
    """The lakes, each with the locations of its tables. Raises ConfigError with every location that cannot be."""
    located = [entry for entry in config.streams if entry.location is not None]
    roots = {name: lake.root for name, lake in lakes.items()}
    problems = Problems()
    for entry in located:
        for problem in chain(_alone(entry, located), _outside(entry, roots), _environment(config)):
            problems.found.append(entry.mark.inside("target").inside("location").error(problem))
    found = dict(lakes)
    for name, lake in lakes.items():
        own = [entry for entry in located if entry.target[0] == name]
        wanted = {_target(entry): _in_scheme(entry.location or "", lake.root) for entry in own}
        placing = lake.placing(wanted) if wanted else lake
        if placing is None:
            mark = own[0].mark.inside("target").inside("location")
            problems.found.append(
                mark.error("is tested with Delta lakes, and with Iceberg catalogs of type sqlite and postgresql alone")
            )
        else:
            found[name] = placing
    problems.refuse()
    return found


def within(inner: str, outer: str) -> bool:
    """Whether a folder is another one or lies in it, whatever their schemes are.

    Example:
        >>> within("s3a://b/x/y", "s3://b/x"), within("s3://b/xy", "s3://b/x"), within("file:///a", "/a")
        (True, False, True)
    """
    return f"{_path(inner)}/".startswith(f"{_path(outer)}/")


def _alone(entry: StreamConfig, located: list[StreamConfig]) -> Iterator[str]:
    here = entry.location or ""
    for other in located:
        if other is not entry and (within(here, other.location or "") or within(other.location or "", here)):
            yield (
                f"and that of stream {other.name!r} lie in each other, and maintenance of one table would delete files "
                f"of the other"
            )


def _outside(entry: StreamConfig, roots: Mapping[str, str | None]) -> Iterator[str]:
    here, own = entry.location or "", roots[entry.target[0]]
    for name, root in roots.items():
        if root is not None and (within(here, root) or within(root, here)):
            yield f"and the warehouse of lake {name!r} ({root}) lie in each other; choose a folder outside of it"
    if own is not None and _scheme(here) != _scheme(own):
        yield (
            f"is in another store than lake {entry.target[0]!r} ({own}), whose settings reach that one alone; use a "
            f"lake whose `warehouse:` is there"
        )


def _environment(config: Config) -> Iterator[str]:
    if config.profile is not None:
        yield (
            f"would be the same place in the environment {config.profile!r} as in others; two environments need lakes "
            f"with warehouses of their own"
        )


def _target(entry: StreamConfig) -> Target:
    return Target(lake=entry.target[0], namespace=entry.target[1:-1], table=entry.target[-1])


def _in_scheme(location: str, root: str | None) -> str:
    """A path as the lake writes those of its tables."""
    return f"file://{location}" if "://" not in location and (root or "").startswith("file:") else location


def _scheme(location: str) -> str:
    return location.partition("://")[0] if "://" in location else "file"


def _path(location: str) -> str:
    return (location.partition("://")[2] or location.removeprefix("file:")).rstrip("/")
