"""The behaviour of every registry, on SQLite."""

from unit.registry.behaviour import *  # noqa: F403 - the suite is the module
from unit.registry.behaviour_parts import *  # noqa: F403
from unit.registry.behaviour_reader import *  # noqa: F403
from unit.registry.behaviour_runs import *  # noqa: F403
from unit.registry.behaviour_schema import *  # noqa: F403
