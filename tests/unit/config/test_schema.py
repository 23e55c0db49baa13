"""The JSON schema says what the loader does."""

import json

from tidegate import config


def test_the_schema_is_json_and_knows_every_section():
    schema = json.loads(json.dumps(config.json_schema()))
    assert set(schema["properties"]) == {"registry", "lakes", "spark", "connections", "defaults", "streams"}
    assert schema["required"] == ["streams"]


def test_the_schema_knows_every_plugin_and_its_options():
    stream = config.json_schema()["properties"]["streams"]["additionalProperties"]
    strategies = {entry["title"]: entry for entry in stream["properties"]["strategy"]["anyOf"] if "title" in entry}
    assert {"full", "watermark", "sequence"} <= set(strategies)
    assert strategies["watermark"]["required"] == ["kind", "column"]
    assert strategies["watermark"]["properties"]["clock"]["enum"] == ["database", "application"]
    assert strategies["full"]["properties"] == {"kind": {"const": "full"}}
    (source,) = (entry for entry in stream["properties"]["source"]["anyOf"] if entry["title"] == "database")
    assert source["properties"]["connection"]["type"] == "string"
    assert "kind" not in source["required"]


def test_defaults_know_the_options_of_strategies():
    defaults = config.json_schema()["properties"]["defaults"]
    assert {"write", "verify", "contract", "safety_lag", "lookback"} <= set(defaults["properties"])
    assert not {"target", "uid"} & set(defaults["properties"])


def test_what_the_program_gives_is_no_key():
    lakes = config.json_schema()["properties"]["lakes"]["additionalProperties"]["anyOf"]
    assert not [lake for lake in lakes if {"name", "folder"} & set(lake["properties"])]
    assert {lake["properties"]["format"]["const"] for lake in lakes} == {"iceberg", "delta"}
    assert [lake.get("required", []) for lake in lakes if lake["properties"]["format"]["const"] == "delta"] == [
        ["format"]
    ]
