"""Logins of brokers, schema registries and Kafka Connect: where they are sent, and where not."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

from support.http_server import serving
from support.schema_registry import registry_of
from tidegate.core.connector import ConnectorOptions
from tidegate.core.ids import Connection
from tidegate.engine.kafka_connect import KafkaConnect
from tidegate.envelopes import _avro as avro
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.change_log.topic import brokers as kafka

SECRET = "p4ss/w@rd"
ENCODED = "p4ss%2Fw%40rd"


def brokers(registry=None, **options):
    return Connection(name="events", kafka="broker:9092", registry=registry, **options)


@contextmanager
def server(status, body=b"{}", **headers):
    """One that answers everything alike, and keeps the headers that it was sent."""
    got = SimpleNamespace(url="", headers=[])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            got.headers.append(dict(self.headers))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with serving(Handler) as port:
        got.url = f"http://127.0.0.1:{port}"
        yield got


def logged_in(url):
    return url.replace("://", f"://me:{ENCODED}@")


def test_a_login_of_the_schema_registry_is_not_sent_in_the_clear():
    with pytest.raises(ConfigError, match="login of the schema registry would be sent in the clear") as caught:
        kafka.check(brokers(f"http://me:{ENCODED}@registry:8081"))
    assert ENCODED not in str(caught.value)
    for url in ("http://registry:8081", f"https://me:{ENCODED}@registry", f"http://me:{ENCODED}@127.0.0.1:8081"):
        kafka.check(brokers(url))
    kafka.check(brokers(f"http://me:{ENCODED}@registry:8081", plain_http=True))


def test_a_login_of_kafka_connect_is_not_sent_in_the_clear():
    url = f"http://me:{ENCODED}@connect:8083"
    for make in (KafkaConnect, lambda url, **more: ConnectorOptions(url=url, **more)):
        with pytest.raises(ConfigError, match="login of Kafka Connect would be sent in the clear") as caught:
            make(url)
        assert ENCODED not in str(caught.value)
        make(url, plain_http=True)
        make("http://connect:8083")


def test_a_redirect_of_the_registry_does_not_take_the_login_along():
    with server(200, b'{"schema": "{}"}') as other, server(302, Location=f"{other.url}/schemas/ids/1") as registry:
        with pytest.raises(SourceError, match="refused to return schema 1"):
            avro.fetched(logged_in(registry.url), [1])
        assert len(registry.headers) == 1
        assert other.headers == []
        assert avro.fetched(registry.url, [1]) == {1: "{}"}  # without a login it is followed
    assert "Authorization" not in other.headers[0]


def test_the_registry_still_gets_its_login_at_its_own_address():
    assert avro.fetched(logged_in(registry_of({1: {"type": "string"}})), [1]) == {1: '{"type": "string"}'}


def test_kafka_connect_gets_the_login_decoded():
    with server(404) as connect:
        assert KafkaConnect(logged_in(connect.url)).config("orders") is None
    assert connect.headers[0]["Authorization"] == "Basic bWU6cDRzcy93QHJk"  # base64 of me:p4ss/w@rd


def test_a_login_of_brokers_goes_over_tls_unless_the_project_says_otherwise():
    login = {"sasl.username": "app", "sasl.password": SECRET}
    found = kafka.for_spark(brokers(options=login))
    assert (found["kafka.security.protocol"], found["kafka.sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    assert kafka.Brokers(brokers(options=login))._conf()["security.protocol"] == "SASL_SSL"
    plain = {**login, "security.protocol": "SASL_PLAINTEXT"}
    assert kafka.for_spark(brokers(options=plain))["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert "kafka.security.protocol" not in kafka.for_spark(brokers())
