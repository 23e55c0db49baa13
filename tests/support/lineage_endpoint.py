"""An endpoint for OpenLineage events and OTLP traces, and the validation of events by the specification's schemas."""

import contextlib
import gzip
import http.server
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import referencing
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.http_server import serving

SPEC = Path(__file__).parent / "openlineage"
DOCUMENTS = [json.loads(file.read_text()) for file in sorted(SPEC.glob("*.json"))]
REGISTRY = referencing.Registry().with_resources(
    (one["$id"], referencing.Resource.from_contents(one)) for one in DOCUMENTS
)
FORMATS = jsonschema.FormatChecker()


def validate(event):
    """Validates an event by the specification's schema of its kind, and each facet by that which it names."""
    _validate(event, event["schemaURL"])
    for facet in facets(event).values():
        _validate_facet(facet)


def facets(event):
    """Every facet of an event, by name."""
    found = {**event["run"]["facets"], **event["job"]["facets"]}
    for one in (*event["inputs"], *event["outputs"]):
        found |= one.get("facets", {}) | one.get("inputFacets", {}) | one.get("outputFacets", {})
    return found


def _validate(value, url):
    checker = jsonschema.Draft202012Validator({"$ref": url}, registry=REGISTRY, format_checker=FORMATS)
    checker.validate(value)


def _validate_facet(facet):
    _validate(facet, facet["_schemaURL"])


@contextlib.contextmanager
def endpoint(*, delay=0.0):
    """A server that keeps what it is sent: `events` of lineage, `spans` of traces; each answer after a delay."""
    got = SimpleNamespace(url="", events=[], spans=[], resources=[])
    slow = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            slow.wait(delay)
            if self.path == "/v1/traces":
                for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    got.resources.append({each.key: each.value.string_value for each in one.resource.attributes})
                    got.spans += [span for scope in one.scope_spans for span in scope.spans]
            else:
                got.events.append(json.loads(body))
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_):
            pass

    with serving(Handler) as port:
        got.url = f"http://127.0.0.1:{port}"
        try:
            yield got
        finally:
            slow.set()
