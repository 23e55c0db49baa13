"""Decodes Avro messages of a schema registry to the JSON that Kafka Connect would write.

Runs on the driver and on Spark's workers. A message is decoded only by the schema that it names, and Avro's logical
types never change a value.

Source: Confluent, "Wire format": a zero byte, the schema's number in four bytes, the highest first, then Avro's binary
encoding.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tidegate import extras
from tidegate.errors import EnvironmentMissing, SourceError, SourceUnavailable

TIMEOUT = 30.0
"""Seconds that the registry has for an answer."""

CONNECT = {
    "boolean": "boolean",
    "bytes": "bytes",
    "double": "double",
    "enum": "string",
    "fixed": "bytes",
    "float": "float",
    "int": "int32",
    "long": "int64",
    "map": "map",
    "string": "string",
}

Read = Callable[[bytes], tuple[str | None, str | None]]


def fetched(url: str, numbers: Sequence[int]) -> dict[int, str]:
    """The Avro schemas of these numbers, by number; a number that the registry does not know is left out.

    Raises:
        SourceUnavailable: the registry does not answer.
        SourceError: it refuses, or the schema is none of Avro alone.
    """
    found = {}
    parts = urlsplit(url)
    where = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    headers = {}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    opener = urllib.request.build_opener(_NoRedirect) if headers else urllib.request.build_opener()
    for number in numbers:
        request = urllib.request.Request(f"{where}/schemas/ids/{number}", headers=headers)  # noqa: S310 - the project's
        try:
            with opener.open(request, timeout=TIMEOUT) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                continue
            raise SourceError(f"the schema registry refused to return schema {number} ({error.code})") from error
        except (OSError, ValueError) as error:
            raise SourceUnavailable("the schema registry does not answer") from error
        if body.get("schemaType", "AVRO") != "AVRO" or body.get("references"):
            raise SourceError(f"schema {number} of the registry is not a self-contained Avro schema")
        found[number] = str(body["schema"])
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nowhere: a redirect would take the login along, to whatever host it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def number_of(message: bytes | None) -> int | None:
    """The number of a message's schema; None where it names none."""
    if message is None or len(message) < 5 or message[0] != 0:
        return None
    return int.from_bytes(message[1:5], "big")


def prepared(schemas: Mapping[int, str]) -> dict[int, tuple[str, str]]:
    """For each schema its text without logical types, and the schema of Connect that says the same, both JSON."""
    return {
        number: (json.dumps(_plain(json.loads(text))), json.dumps(_field(json.loads(text), {})))
        for number, text in schemas.items()
    }


def prefix(schema: tuple[str, str]) -> bytes:
    """What `reader` writes before the payload of a message of such a schema, and no payload."""
    return f'{{"schema":{schema[1]},"payload":null}}'.encode()


def need_client() -> None:
    """Raises EnvironmentMissing where nothing decodes Avro."""
    try:
        import fastavro  # noqa: F401, PLC0415 - only where Avro is read
    except ImportError as error:
        raise EnvironmentMissing("the Avro decoder is not installed", hint=extras.hint("avro")) from error


def reader(schemas: Mapping[int, tuple[str, str]]) -> Read:
    """A function of a message that gives it as JSON with its schema, or why it cannot.

    It travels to workers that have fastavro and nothing of this package, so that it holds all that it needs.
    """
    known: dict[int, Any] = {}
    plain = _values()

    def read(message: bytes) -> tuple[str | None, str | None]:
        import io  # noqa: PLC0415 - as above
        import json  # noqa: PLC0415 - as above

        import fastavro  # noqa: PLC0415 - as above

        if len(message) < 5 or message[0] != 0:
            return None, "it does not start with the wire format of a schema registry"
        number = int.from_bytes(message[1:5], "big")
        if number not in schemas:
            return None, f"the registry has no schema {number}"
        avro, connect = schemas[number]
        if number not in known:
            known[number] = fastavro.parse_schema(json.loads(avro))
        content = io.BytesIO(message[5:])
        try:
            found = fastavro.schemaless_reader(content, known[number], None)
        except Exception:  # noqa: BLE001 - whatever bytes make of it
            return None, "it does not match its schema"
        if content.read(1):
            return None, "it is longer than its schema allows"
        payload = json.dumps(plain(found), ensure_ascii=False, separators=(",", ":"))
        return f'{{"schema":{connect},"payload":{payload}}}', None

    return read


def _values() -> Callable[[Any], Any]:
    """A function of a value that gives what JSON can hold of it, as Connect writes it."""

    def plain(value: Any) -> Any:
        import base64  # noqa: PLC0415 - on a worker there is no module around it
        import math  # noqa: PLC0415 - as above

        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list):
            return [plain(each) for each in value]
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value

    return plain


def batches(read: Read, names: Sequence[str]) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """A function for workers: of batches of key, value, place and origin to the same with `problem` and `raw`."""
    key, value, place, origin = names

    def decoded(content: Any) -> Iterator[Any]:
        import base64  # noqa: PLC0415 - on a worker there is no module around it

        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

        for batch in content:
            keys, values, problems, raws = [], [], [], []
            for one, other in zip(batch.column(key).to_pylist(), batch.column(value).to_pylist(), strict=True):
                name = read(one)[0] if one else None
                text, problem = read(other)
                keys.append(name.encode() if name is not None else one)
                values.append(None if text is None else text.encode())
                problems.append(problem)
                raws.append(base64.b64encode(other).decode() if problem else None)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(keys, pa.binary()),
                    pa.array(values, pa.binary()),
                    batch.column(place),
                    batch.column(origin),
                    pa.array(problems, pa.string()),
                    pa.array(raws, pa.string()),
                ],
                names=[key, value, place, origin, "problem", "raw"],
            )

    return decoded


def _plain(schema: Any) -> Any:
    """The schema without logical types, so that decimals stay bytes and times numbers."""
    if isinstance(schema, dict):
        return {name: _plain(each) for name, each in schema.items() if name != "logicalType"}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _field(schema: Any, named: dict[str, Any]) -> dict[str, Any]:  # noqa: C901 - one branch a construct of Avro
    """The schema in Connect's words, as Connect's own converter would say it.

    Args:
        named: the types with a name that came before.
    """
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return {**(_field(kinds[0], named) if len(kinds) == 1 else {"type": "union"}), "optional": True}
    if isinstance(schema, str):
        return named.get(schema) or {"type": CONNECT.get(schema, schema), "optional": False}
    kind = schema["type"]
    if not isinstance(kind, str):
        return _field(kind, named)
    found: dict[str, Any]
    found = {"type": schema.get("connect.type", CONNECT.get(kind, kind)), "optional": False}
    if "connect.name" in schema:
        found["name"] = schema["connect.name"]
    if "connect.parameters" in schema:
        found["parameters"] = {name: str(value) for name, value in schema["connect.parameters"].items()}
    if schema.get("logicalType") == "decimal":
        own = {"scale": str(schema.get("scale", 0)), "connect.decimal.precision": str(schema.get("precision", 38))}
        found |= {"name": "org.apache.kafka.connect.data.Decimal", "parameters": own | found.get("parameters", {})}
    if kind == "array":
        found["items"] = _field(schema["items"], named)
    if kind == "record":
        found["type"] = "struct"
        found["fields"] = [{**_field(each["type"], named), "field": each["name"]} for each in schema["fields"]]
    for name in (schema.get("name"), f"{schema.get('namespace')}.{schema.get('name')}"):
        if name is not None and kind in ("record", "enum", "fixed"):
            named[name] = found
    return found
