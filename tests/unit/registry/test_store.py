"""The behaviour of every registry, on SQLite."""

from unit.registry.behaviour import *  # noqa: F403 - the suite is the module
