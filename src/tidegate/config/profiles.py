"""Merges a profile into a project: the same streams over other connections, lakes, registry or Spark.

A profile that reads or writes elsewhere is an environment of its own, and never shares a registry or tables with
another by accident.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from tidegate.config.environment import env_file
from tidegate.config.nodes import Node, Problems
from tidegate.config.state import EMBEDDED
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

SECTION = "profiles"
KEYS = ("registry", "lakes", "spark", "connections")
NAMED = ("lakes", "connections")
DIFFERENT = ("kind", "type", "format")
"""Keys that say what a mapping is: with another value it is another thing, and nothing of the first is kept."""


def merged(root: Node, profile: str | None, folder: Path, problems: Problems) -> tuple[Node, bool]:
    """The project as the profile has it, without its section `profiles:`; and whether its state is its own.

    Args:
        folder: the project's; a profile with variables of its own there, in `.env.PROFILE`, has its own state.
        problems: gets what is wrong with any of the profiles.

    Raises:
        ConfigError: there is no such profile.
    """
    section = root.get(SECTION)
    profiles = section.items if section is not None else {}
    base = dataclasses.replace(root, value={key: node for key, node in root.items.items() if key != SECTION})
    for name, each in profiles.items():
        with problems.kept():
            _refuse_strange(base, name, each)
    if profile is None:
        return base, False
    if profile not in profiles:
        known = suggest(profile, profiles) if profiles else "the project has no `profiles:`"
        raise ConfigError(f"there is no profile {profile!r}; {known}", hint="Correct `--env`, or TIDEGATE_ENV.")
    own = {name: each for name, each in profiles.items() if _is_own(each) or env_file(folder, name).exists()}
    if profile in own:
        with problems.kept():
            _refuse_shared(base, own, profile)
    return deep_merge(base, profiles[profile]), profile in own


def _is_own(profile: Node) -> bool:
    """Whether the profile reads or writes elsewhere than the project."""
    return isinstance(profile.value, dict) and bool(profile.value.keys() - {"spark"})


def deep_merge(base: Node, over: Node) -> Node:
    """Mappings are merged key by key at every level; whatever else the profile states takes the place of the other.

    A mapping of another `kind`, `type` or `format` replaces the whole one.
    """
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    for key in DIFFERENT:
        new, old = over.value.get(key), base.value.get(key)
        if new is not None and new.plain() != (old.plain() if old is not None else None):
            return over
    both = {key: deep_merge(base.value[key], node) if key in base.value else node for key, node in over.value.items()}
    return dataclasses.replace(base, value={**base.value, **both})


def _refuse_strange(base: Node, name: str, profile: Node) -> None:
    """Refuses a key that no profile has, and a lake or connection that the project does not have."""
    problems = Problems()
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        problems.found.append(profile.mark.error("must consist of letters, digits, _ and -"))
    with problems.kept():
        profile.refuse_unknown(KEYS)
    for section in NAMED:
        stated, base_section = profile.get(section), base.get(section)
        known = base_section.items if base_section is not None else {"lake": None} if section == "lakes" else {}
        for each, node in stated.items.items() if stated is not None else ():
            if each not in known:
                problems.found.append(node.mark.error(f"is not under `{section}:`; {suggest(each, known)}"))
    problems.refuse()


def _refuse_shared(base: Node, profiles: Mapping[str, Node], profile: str) -> None:
    """Refuses a registry or a lake that is stated for another environment, too.

    Values with a reference are taken as different: the variables of each environment tell them apart.
    """
    problems, own = Problems(), profiles[profile]
    whole = deep_merge(base, own)
    others = {f"profile {name!r}": deep_merge(base, node) for name, node in profiles.items() if name != profile}
    for other, node in {"the project without a profile": base, **others}.items():
        if (same := _stated(whole.get("registry"))) is not None and same == _stated(node.get("registry")):
            text = f"would share the registry of {other}, and with it the positions of all streams"
            hint = f"Give it its own: `{SECTION}: {{{profile}: {{registry: …}}}}`, or leave `registry:` out everywhere."
            problems.found.append(own.mark.error(text, hint=hint))
        for name, lake in _lakes(whole).items():
            shared = next((each for each, one in _lakes(node).items() if _places(lake) & _places(one)), None)
            if shared is not None:
                text = f"would write into the tables that {other} has in lake {shared!r}"
                hint = f"Give it its own place: `{SECTION}: {{{profile}: {{lakes: {{{name}: …}}}}}}`."
                problems.found.append(own.mark.error(text, hint=hint))
    problems.refuse()


def _lakes(root: Node) -> Mapping[str, Node]:
    section = root.get("lakes")
    return section.items if section is not None and isinstance(section.value, dict) else {}


def _places(lake: Node) -> set[str]:
    """Where the tables of a lake are: its folder, and the catalog that knows them; what is not stated is own."""
    if not isinstance(lake.value, dict):
        return set()
    catalog, warehouse = lake.get("catalog"), lake.get("warehouse")
    found = catalog.plain() if catalog is not None else {}
    kind = found.get("type", EMBEDDED) if isinstance(found, dict) else ""
    named = None if kind == EMBEDDED and "path" not in found else _stated(catalog)
    if kind == "rest":
        # A catalog of this kind may serve many warehouses, each with tables of its own.
        return {f"{named} {_stated(warehouse)}"} if named and (warehouse is None or _stated(warehouse)) else set()
    return {place for place in (named, _stated(warehouse)) if place is not None}


def _stated(node: Node | None) -> str | None:
    """What is stated, if every environment reads it the same; else None."""
    if node is None:
        return None
    value = node.plain()
    text = value.rstrip("/") if isinstance(value, str) else repr(value)
    return None if "${" in text else text
