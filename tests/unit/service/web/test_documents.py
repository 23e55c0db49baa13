"""`/api/v1`: its answers are those of the commands, and as the OpenAPI document says."""

import json

import pytest

from support.registry_rows import SECRET
from tidegate.service.web.openapi import document
from unit.service.web.conftest import TOKEN, client_of

BEARER = {"Authorization": f"Bearer {TOKEN}"}
PATHS = {
    "/api/v1/status": "/api/v1/status",
    "/api/v1/proof": "/api/v1/proof",
    "/api/v1/savings": "/api/v1/savings?days=7",
    "/api/v1/memory": "/api/v1/memory",
    "/api/v1/streams/{name}/history": "/api/v1/streams/orders_000/history?limit=5",
    "/api/v1/streams/{name}/tasks": "/api/v1/streams/orders_000/tasks?limit=5",
    "/api/v1/streams/{name}/intervals": "/api/v1/streams/orders_000/intervals",
    "/api/v1/streams/{name}/backfills": "/api/v1/streams/orders_000/backfills",
}
DOCUMENT = document(read_only=False)


def check(value, schema, place="$"):  # noqa: PLR0911 - one return a kind of schema
    """The value is as the schema says: types, required and unknown keys, at every depth."""
    if "$ref" in schema:
        return check(value, DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], place)
    if "anyOf" in schema:
        problems = [check(value, each, place) for each in schema["anyOf"]]
        return None if None in problems else problems[0]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = schema.get("type")
    if kind == "null" or (kind and not isinstance(value, kinds[kind])):
        return None if kind == "null" and value is None else f"{place}: {value!r} is no {kind}"
    if kind == "array" and "items" in schema:
        return next(filter(None, (check(each, schema["items"], f"{place}[]") for each in value)), None)
    if kind != "object" or "properties" not in schema:
        return None
    known = schema["properties"]
    if missing := set(schema.get("required", ())) - set(value):
        return f"{place}: lacks {missing}"
    if more := set(value) - set(known):
        return f"{place}: has {more}"
    return next(filter(None, (check(item, known[key], f"{place}.{key}") for key, item in value.items())), None)


def schema_of(path, method="get", status="200"):
    return DOCUMENT["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]


def test_every_path_that_is_described_is_asked():
    asked = {*PATHS, "/api/v1/streams/{name}/table", "/api/v1/streams/{name}/{action}"}
    assert set(DOCUMENT["paths"]) == asked


@pytest.mark.parametrize("path", PATHS)
def test_answers_are_as_the_document_says(browser, path):
    answer = browser.get(PATHS[path], headers=BEARER)
    assert answer.status_code == 200
    assert check(answer.json(), schema_of(path)) is None
    assert SECRET not in answer.text


def test_the_check_of_answers_finds_what_is_wrong():
    schema = schema_of("/api/v1/streams/{name}/intervals")
    good = {"stream": "a", "intervals": [{"after": None, "upto": "1", "known": "done", "rows": 1}], "gaps": []}
    assert check(good, schema) is None
    assert check({**good, "stream": 1}, schema)
    assert check({**good, "more": 1}, schema)
    assert check({"stream": "a", "gaps": []}, schema)
    assert check({**good, "intervals": [{"after": 1}]}, schema)


def test_the_document_is_served(browser):
    served = browser.get("/api/v1/openapi.json", headers=BEARER).json()
    assert served == json.loads(json.dumps(DOCUMENT))
    assert served["openapi"].startswith("3.1")


@pytest.mark.parametrize("path", ["history", "tasks", "intervals", "table", "backfills"])
def test_an_unknown_stream_is_an_error_as_the_document_says(browser, path):
    answer = browser.get(f"/api/v1/streams/unknown/{path}", headers=BEARER)
    assert answer.status_code == 404
    assert check(answer.json(), schema_of("/api/v1/streams/{name}/table", status="404")) is None


def test_a_table_that_is_not_there_is_an_error_with_a_hint(browser):
    answer = browser.get("/api/v1/streams/orders_000/table", headers=BEARER)
    assert answer.status_code == 409
    assert check(answer.json(), schema_of("/api/v1/streams/{name}/table", status="409")) is None


def test_an_action(service):
    client = client_of(service)
    path = "/api/v1/streams/{name}/{action}"
    answer = client.post("/api/v1/streams/orders_000/run", headers=BEARER)
    assert answer.status_code == 202
    assert check(answer.json(), schema_of(path, "post", "202")) is None
    assert service.asked == [("run", "orders_000", "token (API, testclient)")]
    answer = client.post("/api/v1/streams/orders_000/drop", headers=BEARER)
    assert answer.status_code == 404
    assert check(answer.json(), schema_of(path, "post", "404")) is None


NUMBERS = [
    (path, parameter)
    for path, item in DOCUMENT["paths"].items()
    for parameter in item.get("get", {}).get("parameters", ())
    if parameter["schema"].get("type") == "integer"
]


@pytest.mark.parametrize(("path", "parameter"), NUMBERS, ids=[path for path, _ in NUMBERS])
def test_a_number_out_of_its_bounds_is_refused_with_what_is_possible(browser, path, parameter):
    name, schema = parameter["name"], parameter["schema"]
    address = path.replace("{name}", "orders_000")
    low, high = schema["minimum"], schema["maximum"]
    for wrong in (low - 1, -5, high + 1, 10**30, "", "x", "1.5", "+5", "\u0663", "1e3"):
        answer = browser.get(address, headers=BEARER, params={name: wrong})
        assert answer.status_code == 400, wrong
        assert check(answer.json(), schema_of(path, status="400")) is None
        said = answer.json()["error"]
        assert (said["code"], f"{name} must be a whole number from {low} to {high}" in said["message"]) == (
            "usage",
            True,
        )
    for right in (low, schema["default"], high):
        assert browser.get(address, headers=BEARER, params={name: right}).status_code == 200


def test_every_parameter_of_the_addresses_has_bounds():
    assert {(path, parameter["name"]) for path, parameter in NUMBERS} == {
        ("/api/v1/savings", "days"),
        ("/api/v1/streams/{name}/history", "limit"),
        ("/api/v1/streams/{name}/tasks", "limit"),
    }
