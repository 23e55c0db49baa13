"""The JSON schema of `tidegate.yaml`, so that editors complete, check and explain it.

Printed by `tidegate schema`; made from the very classes that validate, and from what their docstrings say of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate import plugins
from tidegate.config.alerts import AlertOptions, AlertRules, Channel
from tidegate.config.checks import checks_schema
from tidegate.config.defaults import INFERRED_KINDS
from tidegate.config.hooks import hooks_schema
from tidegate.config.options import KIND, descriptions, fields, kind_schema, schema_of, summary
from tidegate.config.profiles import KEYS
from tidegate.config.references import DEFAULTS
from tidegate.config.sections import Contract, ServiceOptions, SparkOptions, TelemetryOptions, Verify
from tidegate.config.state import REGISTRY, WAREHOUSE
from tidegate.core.durations import PATTERN
from tidegate.core.ids import Connection
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.retention import Retain
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Layout

SECTIONS: Mapping[str, str] = {
    "registry": "The database that remembers positions, plans and runs: `sqlite:///…` or `postgresql://…`.",
    "lakes": "The lakes, by name; the name is the first part of every target.",
    "spark": "How the Spark session is made.",
    "service": "What `tidegate serve` keeps, and for how long.",
    "keep_warm": "How long the first run leaves a service behind that keeps Spark warm: `30m`. Not at all by default.",
    "telemetry": "What is sent of runs: OpenTelemetry traces, OpenLineage events. Nothing by default.",
    "alerts": "What people are told of, and by which channels. Nothing without channels.",
    "loads_table": "A table of one of the lakes that Tidegate keeps: one row for each run of a stream, for freshness "
    "and incremental models, such as `lake.ops.tidegate_loads`.",
    "connections": "The databases and brokers that streams read from, by name.",
    "defaults": "What every stream has unless it says otherwise; also options of strategies.",
    "profiles": "Environments by name, such as `prod`: what is different there; chosen by `--env`.",
    "streams": "The streams, by name: each loads one source into one table.",
}
STREAM: Mapping[str, str] = {
    "source": "Where the rows come from: a table or query, files, a table of a lake, or a log of changes.",
    "target": "The table that is loaded: `lake.schema.table`, or these parts as a list.",
    "key": "The columns that identify a row.",
    "strategy": "How changes are found: a kind alone, or a mapping with `kind` and its options.",
    "write": "What happens to the rows that are read: a kind alone, or a mapping with `kind` and its options.",
    "contract": "What a load does when columns of the source change.",
    "layout": "How a new table is laid out.",
    "deletes": "How rows that are gone at the source are found, and how they leave the table.",
    "maintenance": "When files are compacted and old versions of the table expire.",
    "retain": "How long rows stay in the table: older ones are dropped by `tidegate maintain`.",
    "schedule": "When `tidegate watch` runs the stream: `every:` or `cron:`.",
    "verify": "What is compared with the source before a load becomes visible: nothing, the number of rows that moved, "
    "or the fingerprint of the rows that moved. A mapping also says how often the whole table is.",
    "checks": "Rules that rows must fulfil before a load becomes visible.",
    "after_publish": "What is run after a load was published: a statement at a connection, a webhook, or dbt.",
    "tags": "Words by which streams are selected: `--select tag:nightly`.",
    "owner": "Who is told of its incidents: a person or a team, to which a channel of `alerts:` belongs.",
    "exclude": "For a stream with `*` or `?` in its name: the tables to leave out.",
    "uid": "The identity of the stream; set it to the old one after the name or the target has changed.",
}
FORMAT = "The table format: `iceberg` (the default) or `delta`."
WHERE = "Where the tables are stored: a folder, `s3://…`, or any file system that Hadoop knows."
OWN_DEFAULTS = "What every stream of this connection has unless it says otherwise; wins over the project's `defaults:`."


def json_schema() -> dict[str, Any]:
    """The schema of a project file, with every plugin that is installed; every key has a description."""
    stream = _stream()
    sections = {
        "registry": {"type": "string", "default": REGISTRY},
        "lakes": _mapping({"anyOf": [_lake(kind) for kind in plugins.names("formats")]}),
        "spark": schema_of(SparkOptions),
        "service": schema_of(ServiceOptions),
        "keep_warm": {"type": "string", "pattern": PATTERN},
        "telemetry": schema_of(TelemetryOptions),
        "alerts": _alerts(),
        "loads_table": {"type": "string"},
        "connections": _mapping(_connection()),
        "defaults": _defaults(stream),
        "streams": _mapping(stream),
    }
    sections["profiles"] = _mapping(_closed({key: _all_optional(sections[key], SECTIONS[key]) for key in KEYS}))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tidegate.yaml",
        "type": "object",
        "additionalProperties": False,
        "required": ["streams"],
        "properties": _described(sections, SECTIONS),
    }


def _alerts() -> dict[str, Any]:
    own = schema_of(AlertOptions, hidden=("channels", "rules", "absent"))
    texts = descriptions(AlertOptions)
    channels = {**_mapping(schema_of(Channel)), "description": texts["channels"]}
    rules = {**schema_of(AlertRules), "description": texts["rules"]}
    return _closed({"channels": channels, "rules": rules, **own["properties"]})


def _all_optional(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A section of a profile: some of what the project states, so nothing in it is required."""
    kind = {"type": schema["type"]} if "type" in schema else {}
    return {**kind, "description": text}


def _stream() -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    texts: dict[str, Any] = {"anyOf": [text, {"type": "array", "items": text}]}
    keys = {
        "source": {"anyOf": [_plugin("sources", kind) for kind in plugins.names("sources")]},
        "target": {"anyOf": [*texts["anyOf"], _located(texts)]},
        "key": texts,
        "strategy": _choice("strategies"),
        "write": _choice("writers"),
        "contract": schema_of(Contract),
        "layout": schema_of(Layout),
        "deletes": schema_of(Deletes),
        "maintenance": schema_of(Maintenance),
        "retain": schema_of(Retain),
        "schedule": schema_of(Schedule),
        "verify": {"anyOf": [{"enum": ["none", "counts", "moved"], "default": "moved"}, schema_of(Verify)]},
        "checks": checks_schema(),
        "after_publish": hooks_schema(),
        "tags": texts,
        "owner": text,
        "exclude": texts,
        "uid": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
    }
    return _closed(_described(keys, STREAM), "source", "target")


def _located(names: Mapping[str, Any]) -> dict[str, Any]:
    """A target with a place of its own."""
    table = {**names, "description": "The table: `lake.schema.table`, or these parts as a list."}
    location = {"type": "string", "description": "Where its files lie: a folder that nothing else lies in."}
    return _closed({"table": table, "location": location}, "table")


def _defaults(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of a stream and options of strategies; what is complete is checked on each stream."""
    keys = {key: schema for key, schema in stream["properties"].items() if key not in ("target", "uid", "exclude")}
    keys["source"] = {"type": "object", "description": STREAM["source"]}
    options: dict[str, dict[str, Any]] = {}
    for kind in plugins.names("strategies"):
        cls = plugins.load("strategies", kind)
        properties = schema_of(cls)["properties"]
        for key in fields(cls):  # a default has one name
            options.setdefault(key, {})[kind] = properties[key]
    return _closed({**{key: _option(kinds) for key, kinds in options.items()}, **keys})


def _option(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A key that one strategy or several have, each in its own meaning."""
    texts = [f"`{kind}`: {schema['description']}" for kind, schema in kinds.items() if "description" in schema]
    one = next(iter(kinds.values())) if len(kinds) == 1 else {"anyOf": list(kinds.values())}
    return {**one, "description": "\n\n".join(texts)} if texts else dict(one)


def _connection() -> dict[str, Any]:
    schema = schema_of(Connection, hidden=("name",))
    schema["properties"][DEFAULTS] = {"$ref": f"#/properties/{DEFAULTS}", "description": OWN_DEFAULTS}
    return {"anyOf": [{"type": "string"}, schema]}


def _choice(group: str) -> dict[str, Any]:
    kinds = plugins.names(group)
    return {"anyOf": [{"enum": list(kinds)}, *(_plugin(group, kind) for kind in kinds)]}


def _plugin(group: str, kind: str) -> dict[str, Any]:
    cls = plugins.load(group, kind)
    schema = schema_of(cls)
    schema["properties"] = {KIND: kind_schema(cls, kind), **schema["properties"]}
    if kind not in INFERRED_KINDS.values() or group != "sources":
        schema["required"] = [KIND, *schema.get("required", [])]
    return {"title": kind, "description": summary(cls), **schema}


def _lake(kind: str) -> dict[str, Any]:
    schema = schema_of(plugins.load("formats", kind), hidden=("name", "folder"))
    properties = {"format": {"const": kind, "description": FORMAT}, **schema["properties"]}
    properties["warehouse"] = {"type": "string", "default": WAREHOUSE, "description": WHERE}
    required = [key for key in schema.get("required", []) if key != "warehouse"]
    return _closed(properties, *(required if kind == "iceberg" else ["format", *required]))


def _described(keys: Mapping[str, dict[str, Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    return {key: {**schema, "description": texts[key]} for key, schema in keys.items()}


def _mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema
