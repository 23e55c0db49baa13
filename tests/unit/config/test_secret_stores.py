"""Secrets of the clouds, read by the vendors' own clients from servers on this machine."""

import base64
import json
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import boto3
import pytest
from azure.core.credentials import AccessToken
from azure.keyvault.secrets import SecretClient
from google.auth.credentials import AnonymousCredentials
from google.cloud.secretmanager import SecretManagerServiceClient
from google.cloud.secretmanager_v1.services.secret_manager_service.transports import SecretManagerServiceRestTransport
from moto.server import ThreadedMotoServer

from tidegate.config import inspect
from tidegate.config.references import SecretUnavailable, fetch, read_azure, read_gcp
from tidegate.errors import ConfigError

SECRET = "p@ss/Wörd#7"


@pytest.fixture(scope="module")
def moto():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def aws(moto, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": moto,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("secretsmanager")
    for name, text in {
        "shop": SECRET,
        "shop/login": json.dumps({"password": SECRET, "port": 5432, "list": []}),
    }.items():
        client.create_secret(Name=name, SecretString=text)
    client.create_secret(Name="bytes", SecretBinary=b"x")
    yield client
    for name in ("shop", "shop/login", "bytes"):
        client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


@pytest.mark.usefixtures("aws")
def test_aws_gives_a_text_and_a_key_of_a_document():
    assert fetch("aws", "shop") == SECRET
    assert fetch("aws", "shop/login#password") == SECRET
    assert fetch("aws", "shop/login#port") == "5432"


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", "AWS refuses it: ResourceNotFoundException"),
        ("bytes", "it is not a text"),
        ("shop#password", "it is not a JSON object, so it has no key 'password'"),
        ("shop/login#user", "it has no key 'user'"),
        ("shop/login#list", "its key 'list' holds no text"),
        ("", "its name is empty"),
    ],
)
def test_what_aws_has_not_is_told_without_the_secret(name, told):
    with pytest.raises(SecretUnavailable) as caught:
        fetch("aws", name)
    assert str(caught.value) == told
    assert SECRET not in caught.value.hint


def test_aws_without_a_region_or_a_server(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SecretUnavailable, match="AWS cannot be asked: NoRegionError"):
        fetch("aws", "shop")


@pytest.mark.usefixtures("aws")
def test_a_project_refers_to_it_and_never_shows_it(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(
        'connections:\n  shop: "postgresql://app:${aws:shop/login#password}@127.0.0.1/shop"\n'
        "streams: {a: {source: {connection: shop, table: a}, target: lake.s.a, strategy: full, write: replace}}\n"
    )
    config = inspect(tmp_path)
    assert config.problems == ()
    assert config.connection("shop").url == "postgresql://app:p%40ss%2FW%C3%B6rd%237@127.0.0.1/shop"
    assert config.redact(f"no login with {SECRET}") == "no login with ***"


@pytest.mark.usefixtures("aws")
def test_a_connection_without_its_secret_is_refused_only_when_it_is_used(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(
        'connections:\n  shop: "${aws:nothing}"\n'
        "streams: {a: {source: {connection: shop, table: a}, target: lake.s.a, strategy: full, write: replace}}\n"
    )
    config = inspect(tmp_path)
    assert config.problems == ()
    with pytest.raises(ConfigError, match="needs the secret aws:nothing; AWS refuses it: ResourceNotFoundException"):
        config.connection("shop")


@contextmanager
def served(answers, context=None):
    """A server that answers each path with a status and a document."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            status, document = answers.get(path, (404, {"error": {"code": 404, "message": "no"}}))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if "Authorization" not in self.headers and status == 401:
                self.send_header(
                    "WWW-Authenticate", 'Bearer authorization="https://login.test/t", resource="https://r"'
                )
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            del arguments

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def google(port):
    transport = SecretManagerServiceRestTransport(
        host=f"127.0.0.1:{port}", credentials=AnonymousCredentials(), url_scheme="http"
    )
    return SecretManagerServiceClient(transport=transport)


def test_google_gives_the_latest_version_unless_one_is_named():
    def secret(text):
        return 200, {"name": "n", "payload": {"data": base64.b64encode(text).decode()}}

    answers = {
        "/v1/projects/p/secrets/shop/versions/latest:access": secret(SECRET.encode()),
        "/v1/projects/p/secrets/shop/versions/3:access": secret(b"third"),
        "/v1/projects/p/secrets/bytes/versions/latest:access": secret(b"\xff"),
    }
    with served(answers) as port:
        client = google(port)
        assert read_gcp(client, "projects/p/secrets/shop") == SECRET
        assert read_gcp(client, "projects/p/secrets/shop/versions/3") == "third"
        with pytest.raises(SecretUnavailable, match="Google Cloud refuses it: NotFound"):
            read_gcp(client, "projects/p/secrets/nothing")
        with pytest.raises(SecretUnavailable, match="it is not a text"):
            read_gcp(client, "projects/p/secrets/bytes")


class Login:
    """A credential that every server takes."""

    def get_token(self, *scopes, **options):
        del scopes, options
        return AccessToken("token", 4_000_000_000)


@pytest.fixture
def certificate(tmp_path):
    key, file = tmp_path / "key.pem", tmp_path / "cert.pem"
    request = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*request.split(), "-keyout", key, "-out", file], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context, str(file)


def test_azure_gives_the_current_version(certificate):
    context, file = certificate
    answers = {"/secrets/shop/": (200, {"id": "https://127.0.0.1/secrets/shop/1", "value": SECRET})}
    with served(answers, context) as port:
        url = f"https://127.0.0.1:{port}"
        with SecretClient(url, Login(), connection_verify=file, verify_challenge_resource=False) as client:
            assert read_azure(client, "shop") == SECRET
            with pytest.raises(SecretUnavailable, match="Azure refuses it: ResourceNotFoundError"):
                read_azure(client, "nothing")


def test_azure_needs_a_vault():
    with pytest.raises(SecretUnavailable, match="its name has no vault"):
        fetch("azure", "shop")
