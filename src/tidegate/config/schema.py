"""Decides the JSON schema of `tidegate.yaml`, so that editors complete and check it.

Called by `tidegate schema`; made from the very classes that validate. Must never be written by hand.
"""

from __future__ import annotations

from typing import Any

from tidegate import plugins
from tidegate.config.checks import checks_schema
from tidegate.config.defaults import INFERRED_KINDS
from tidegate.config.options import KIND, schema_of
from tidegate.config.project import REGISTRY, WAREHOUSE, Contract, SparkOptions
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Layout


def json_schema() -> dict[str, Any]:
    """The schema of a project file, with every plugin that is installed."""
    stream = _stream()
    defaults = {key: schema for key, schema in stream["properties"].items() if key not in ("target", "uid")}
    for kind in plugins.names("strategies"):
        options = schema_of(plugins.load("strategies", kind))["properties"]
        defaults = {**options, **defaults}
    # Defaults hold parts of a stream; what is complete is checked on each stream.
    defaults["source"] = {"type": "object"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tidegate.yaml",
        "type": "object",
        "additionalProperties": False,
        "required": ["streams"],
        "properties": {
            "registry": {"type": "string", "default": REGISTRY},
            "lakes": _mapping({"anyOf": [_lake(kind) for kind in plugins.names("formats")]}),
            "spark": schema_of(SparkOptions),
            "connections": _mapping({"anyOf": [{"type": "string"}, _closed({"url": {"type": "string"}}, "url")]}),
            "defaults": _closed(defaults),
            "streams": _mapping(stream),
        },
    }


def _stream() -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    texts: dict[str, Any] = {"anyOf": [text, {"type": "array", "items": text}]}
    return _closed(
        {
            "source": {"anyOf": [_plugin("sources", kind) for kind in plugins.names("sources")]},
            "target": texts,
            "key": texts,
            "strategy": _choice("strategies"),
            "write": _choice("writers"),
            "contract": schema_of(Contract),
            "layout": schema_of(Layout),
            "deletes": schema_of(Deletes),
            "maintenance": schema_of(Maintenance),
            "schedule": schema_of(Schedule),
            "verify": {"enum": ["none", "counts", "moved"], "default": "moved"},
            "checks": checks_schema(),
            "uid": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
        },
        "source",
        "target",
    )


def _choice(group: str) -> dict[str, Any]:
    kinds = plugins.names(group)
    return {"anyOf": [{"enum": list(kinds)}, *(_plugin(group, kind) for kind in kinds)]}


def _plugin(group: str, kind: str) -> dict[str, Any]:
    cls = plugins.load(group, kind)
    schema = schema_of(cls)
    schema["properties"] = {KIND: {"const": kind}, **schema["properties"]}
    if kind not in INFERRED_KINDS.values() or group != "sources":
        schema["required"] = [KIND, *schema.get("required", [])]
    description = (cls.__doc__ or "").strip().partition("\n")[0]
    return {"title": kind, "description": description, **schema}


def _lake(kind: str) -> dict[str, Any]:
    schema = schema_of(plugins.load("formats", kind), hidden=("name", "folder"))
    properties = {"format": {"const": kind}, **schema["properties"]}
    properties["warehouse"] = {"type": "string", "default": WAREHOUSE}
    required = [key for key in schema.get("required", []) if key != "warehouse"]
    return _closed(properties, *(required if kind == "iceberg" else ["format", *required]))


def _mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema
