"""Finds the class of a plugin: the file or folder named like its kind, else an entry point.

A plugin that is not used is never imported.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import pkgutil
import sys
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from tidegate.errors import ConfigError, UnknownPlugin

GROUPS = ("sources", "strategies", "writers", "formats", "dialects", "envelopes", "checks", "hooks")

SINGULAR = {group: group.removesuffix("s") for group in GROUPS} | {"strategies": "strategy"}
SHARED = "shared"
"""The folder of a group that holds what its plugins share."""


def names(group: str, within: str = "") -> tuple[str, ...]:
    """Every kind of a group, sorted: the files and folders of its package, and the entry points `tidegate.<group>`.

    Args:
        within: the package; `tidegate.<group>` by default.
    """
    package = importlib.import_module(within or f"tidegate.{group}")
    own = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")} - {
        SHARED
    }
    return tuple(sorted(own | {entry.name for entry in _installed(group, tuple(sys.path))}))


def load(group: str, kind: str, within: str = "") -> type[Any]:
    """The plugin class of that kind: the class that names itself `kind` in the file or folder `kind`.

    Args:
        within: the package of the group, see `names`.

    Raises:
        UnknownPlugin: nobody provides it; the message lists the known kinds, nearest first.
    """
    package = within or f"tidegate.{group}"
    if (
        kind.isidentifier()
        and not kind.startswith("_")
        and kind != SHARED
        and importlib.util.find_spec(f"{package}.{kind}")
    ):
        module = importlib.import_module(f"{package}.{kind}")
        return _class_of(module, kind)
    for entry in _installed(group, tuple(sys.path)).select(name=kind):
        found = entry.load()
        if not isinstance(found, type):
            raise ConfigError(f"entry point tidegate.{group}:{kind} is not a class")
        return found
    known = names(group, within)
    near = difflib.get_close_matches(kind, known, n=len(known) or 1, cutoff=0.6)
    ordered = [*near, *(name for name in known if name not in near)]
    raise UnknownPlugin(
        f"{kind!r} is not a known {SINGULAR.get(group, group)}; known: {', '.join(ordered)}",
        hint=f"Did you mean {ordered[0]!r}? {UnknownPlugin.default_hint}" if near else None,
    )


def dialect_of(scheme: str) -> type[Any]:
    """The dialect that a URL's scheme names: that of the same kind, else the one that lists it among its `schemes`.

    Raises:
        UnknownPlugin: there is none.
    """
    known = names("dialects")
    others = () if scheme in known else (load("dialects", kind) for kind in known)
    found = next((dialect for dialect in others if scheme in getattr(dialect, "schemes", ())), None)
    return found or load("dialects", scheme)


@functools.cache
def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - what there is depends on it
    """The entry points of every package: each question reads the files of all of them, and each stream asks some."""
    return entry_points(group=f"tidegate.{group}")


def _class_of(module: Any, kind: str) -> type[Any]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and f"{value.__module__}.".startswith(f"{module.__name__}.")
            and getattr(value, "kind", None) == kind
        ):
            return value
    raise ConfigError(f"{module.__name__} has no class of kind {kind!r}")
