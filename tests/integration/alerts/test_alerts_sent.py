"""Alerts reach a mail server and a webhook, by the command line."""

from __future__ import annotations

import email
import email.policy
import http.server
import json
import socketserver
import sqlite3

import pytest

from integration.cli.terminal import Terminal
from support.served import served

PASSWORD = "of-the-mail-server"

pytestmark = [pytest.mark.usefixtures("no_spark"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to leave a message."""

    def handle(self):
        self.say("220 ready")
        while line := self.rfile.readline().decode().strip():
            word = line.partition(" ")[0].upper()
            if word == "DATA":
                self.say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.taken.append(b"".join(lines))
            self.say("221 bye" if word == "QUIT" else "250 ok")

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def mail():
    yield from served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail))


@pytest.fixture
def hook():
    yield from served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook))


@pytest.fixture
def tidegate(tmp_path, mail, hook, capfd, monkeypatch):
    (tmp_path / "tidegate.yaml").write_text(
        """\
connections:
  shop: {url: "sqlite:///shop.db"}
alerts:
  channels:
    mail: {url: "${MAIL_URL}", tags: [nightly]}
    chat: {url: "${CHAT_URL}"}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    strategy: full
    write: replace
    tags: [nightly]
"""
    )
    sqlite3.connect(tmp_path / "shop.db").close()
    ports = [each.server_address[1] for each in (mail, hook)]
    mail_url = f"mailto://127.0.0.1:{ports[0]}?from=tidegate@example.org&to=team@example.org&mode=insecure"
    monkeypatch.setenv("MAIL_URL", mail_url)
    monkeypatch.setenv("CHAT_URL", f"json://127.0.0.1:{ports[1]}/{PASSWORD}")
    return Terminal(folder=tmp_path, capfd=capfd)


def text_of(message):
    parsed = email.message_from_bytes(message, policy=email.policy.default)
    return parsed["subject"], parsed.get_body(("plain", "html")).get_content()


def test_a_failed_run_reaches_mail_and_chat_once(tidegate, mail, hook):
    assert tidegate("run", "--local").exit_code == 2
    done = tidegate("alerts", "check")
    assert done.exit_code == 0, done.everything
    subject, body = text_of(mail.taken[0])
    (first,) = hook.taken
    assert first["title"] == subject == "orders: run failed"
    for text in (body, first["message"]):
        for part in ("lake.shop.orders", "since: ", "why: column_missing", "tidegate history orders"):
            assert part in text
    assert tidegate("alerts", "check").exit_code == 0
    assert len(mail.taken) == len(hook.taken) == 1
    (incident,) = tidegate("alerts", "list", "--json").document["incidents"]
    assert incident["rule"] == "run_failed"
    assert incident["opened_at"] <= incident["announced_at"]

    assert tidegate("alerts", "test").exit_code == 0
    assert (len(mail.taken), len(hook.taken)) == (2, 2)
    hook.shutdown()
    hook.server_close()
    done = tidegate("alerts", "test", "chat")
    assert (done.exit_code, "error[alert_undelivered]: chat:" in done.err) == (1, True), done.everything
    assert PASSWORD not in done.everything
