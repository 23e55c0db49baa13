"""Decides where tables may lie: where their `target:` states a `location`, and else where their lake puts them.

Maintenance deletes every file below a table that no version of it knows. So no table lies within another one, nor one
with a `location` within a lake's warehouse, where other tables come to lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from tidegate.config import Config, StreamConfig
from tidegate.config.nodes import Mark, Problems
from tidegate.core.ids import Target, join_name
from tidegate.core.ports.format import Format
from tidegate.errors import ConfigError


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
    plain = [entry for entry in config.streams if not entry.is_pattern]
    problems.found.extend(_nested(plain, config, found))
    problems.refuse()
    return found


def refuse_nested(entries: Iterable[StreamConfig], config: Config, lakes: Mapping[str, Format]) -> None:
    """Refuses streams whose tables would lie within each other; of lakes that put tables where their names say.

    Args:
        entries: of `config`, patterns expanded.

    Raises:
        ConfigError: every one of them.
    """
    problems = Problems()
    problems.found.extend(_nested(entries, config, lakes))
    problems.refuse()


def within(inner: str, outer: str) -> bool:
    """Whether a folder is another one or lies in it, whatever their schemes are.

    Example:
        >>> within("s3a://b/x/y", "s3://b/x"), within("s3://b/xy", "s3://b/x"), within("file:///a", "/a")
        (True, False, True)
    """
    return f"{_path(inner)}/".startswith(f"{_path(outer)}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a table lies by default, as the steps of its path; whose it is; and where the project says so."""

    target: tuple[str, ...]
    steps: tuple[str, ...]
    owner: str
    mark: Mark | None = None


def _nested(entries: Iterable[StreamConfig], config: Config, lakes: Mapping[str, Format]) -> Iterator[ConfigError]:
    places = list(_places(entries, config, lakes))
    first: dict[tuple[str, ...], _Place] = {}
    for place in places:
        first.setdefault(place.steps, place)
    for inner in places:
        above = (first.get(inner.steps[:end]) for end in range(1, len(inner.steps) + 1))
        outer = next((each for each in above if each is not None and each.target != inner.target), None)
        if outer is None:
            continue
        stream, other = (inner, outer) if inner.mark is not None else (outer, inner)
        if stream.mark is not None:
            yield stream.mark.inside("target").error(
                f"{join_name(stream.target)} and {join_name(other.target)}, {other.owner}, lie in each other "
                f"(/{'/'.join(outer.steps)} and /{'/'.join(inner.steps)}), and maintenance of one table would delete "
                f"files of the other",
                hint="Give one of them another name or schema, or a lake with a `warehouse:` of its own.",
            )


def _places(entries: Iterable[StreamConfig], config: Config, lakes: Mapping[str, Format]) -> Iterator[_Place]:
    """The tables of which it is known without a catalog where they lie; names are folders, one within the other."""
    roots = {
        name: tuple(_path(lake.root).strip("/").split("/"))
        for name, lake in lakes.items()
        if lake.root is not None and lake.placing({}) is not None
    }
    if config.loads_table is not None and (root := roots.get(config.loads_table[0])):
        owner = "the table of `loads_table:`"
        yield _Place(target=config.loads_table, steps=(*root, *config.loads_table[1:]), owner=owner)
    for entry in entries:
        if entry.location is None and (root := roots.get(entry.target[0])):
            owner, steps = f"that of stream {entry.name!r}", (*root, *entry.target[1:])
            yield _Place(target=tuple(entry.target), steps=steps, owner=owner, mark=entry.mark)


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
