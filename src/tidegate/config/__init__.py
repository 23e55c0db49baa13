"""The project file: its values and where each was written, its references and secrets, and its JSON schema."""

from tidegate.config.nodes import Mark, Node
from tidegate.config.options import build
from tidegate.config.project import Config, Opening, from_dict, inspect, load, same_project
from tidegate.config.schema import json_schema
from tidegate.config.sections import SparkOptions
from tidegate.config.streams import StreamConfig

__all__ = [
    "Config",
    "Mark",
    "Node",
    "Opening",
    "SparkOptions",
    "StreamConfig",
    "build",
    "from_dict",
    "inspect",
    "json_schema",
    "load",
    "same_project",
]
