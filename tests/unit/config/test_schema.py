"""The JSON schema says what the loader does."""

import json

from tidegate import config


def test_the_schema_is_json_and_knows_every_section():
    schema = json.loads(json.dumps(config.json_schema()))
    sections = {
        "registry",
        "lakes",
        "spark",
        "service",
        "keep_warm",
        "telemetry",
        "alerts",
        "loads_table",
        "connections",
        "defaults",
        "profiles",
        "streams",
    }
    assert set(schema["properties"]) == sections
    assert set(schema["properties"]["profiles"]["additionalProperties"]["properties"]) < sections
    assert schema["required"] == ["streams"]


def test_the_schema_knows_every_plugin_and_its_options():
    stream = config.json_schema()["properties"]["streams"]["additionalProperties"]
    strategies = {entry["title"]: entry for entry in stream["properties"]["strategy"]["anyOf"] if "title" in entry}
    assert {"full", "watermark", "sequence"} <= set(strategies)
    assert strategies["watermark"]["required"] == ["kind", "column"]
    assert strategies["watermark"]["properties"]["clock"]["enum"] == ["database", "application"]
    assert set(strategies["full"]["properties"]) == {"kind"}
    (source,) = (entry for entry in stream["properties"]["source"]["anyOf"] if entry["title"] == "database")
    assert source["properties"]["connection"]["type"] == "string"
    assert "kind" not in source["required"]


def test_defaults_know_the_options_of_strategies():
    defaults = config.json_schema()["properties"]["defaults"]
    assert {"write", "verify", "contract", "safety_lag", "lookback"} <= set(defaults["properties"])
    assert not {"target", "uid"} & set(defaults["properties"])


def test_an_option_has_its_other_names_and_a_default_has_one():
    schema = config.json_schema()["properties"]
    choices = schema["streams"]["additionalProperties"]["properties"]["strategy"]["anyOf"]
    (checksum,) = (entry["properties"] for entry in choices if entry.get("title") == "checksum")
    assert checksum["type"]["enum"] == checksum["method"]["enum"]
    assert "WHOLE TABLE" in checksum["type"]["enum"]
    assert checksum["column_name"]["description"] == "The same as `column`."
    assert not {"type", "column_name"} & set(schema["defaults"]["properties"])


def test_what_the_program_gives_is_no_key():
    lakes = config.json_schema()["properties"]["lakes"]["additionalProperties"]["anyOf"]
    assert not [lake for lake in lakes if {"name", "folder"} & set(lake["properties"])]
    assert {lake["properties"]["format"]["const"] for lake in lakes} == {"iceberg", "delta"}
    assert [lake.get("required", []) for lake in lakes if lake["properties"]["format"]["const"] == "delta"] == [
        ["format"]
    ]


def undescribed(schema, path="tidegate.yaml"):
    """The keys of a schema, at any depth, that an editor could say nothing about."""
    if isinstance(schema, list):
        return [key for each in schema for key in undescribed(each, path)]
    if not isinstance(schema, dict):
        return []
    keys = schema.get("properties", {})
    bare = [f"{path}: {key}" for key, each in keys.items() if not each.get("description", "").strip()]
    inner = [key for name, each in keys.items() for key in undescribed(each, f"{path}.{name}")]
    rest = [key for name, each in schema.items() if name != "properties" for key in undescribed(each, path)]
    return [*bare, *inner, *rest]


def test_every_key_has_a_description():
    assert undescribed({"anyOf": [{"properties": {"a": {"description": " "}}}]}) == ["tidegate.yaml: a"]
    assert undescribed(config.json_schema()) == []


def test_connections_may_be_brokers_and_have_defaults():
    _, mapping = config.json_schema()["properties"]["connections"]["additionalProperties"]["anyOf"]
    assert set(mapping["properties"]) == {"url", "kafka", "options", "registry", "plain_http", "defaults"}
    assert "required" not in mapping
