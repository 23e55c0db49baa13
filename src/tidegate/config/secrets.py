"""Collects the secrets of a project and masks them in text."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tidegate.config.nodes import Mark, Node, from_values
from tidegate.core.cutting import CUT, begun_at_cuts
from tidegate.core.secret_names import SECRET_NAME, logins, masked, spans_of

SECTIONS = ("connections", "registry", "lakes", "spark", "alerts")
LOGINS = ("connections", "registry", "alerts")
STREAMS = ("streams", "defaults")
REQUEST = ("auth", "headers", "params", "body", "args")
"""Keys of a source below which an API's logins are stated."""
LEAST = 8
"""Characters that a value needs to be masked that came from a reference to a place where logins are rare."""
HOOKS = "after_publish"
NAMES = frozenset(
    {"target", "table", "topic", "uid", "name", "tags", "owner", "location", "path", "include", "exclude", "key"}
) | {"warehouse", "master", "remote", "format"}
"""Keys of streams, lakes and Spark whose values are shown, as they name things."""


def collect(root: Node, found: Iterable[tuple[Mark, str]]) -> tuple[str, ...]:
    """Every secret of a resolved project, longest first, each in the forms in which a text may hold it.

    Secrets are: the password of every URL; every value whose key says so; the URL of every channel of alerts and of
    every webhook; and every value that came from a reference and is not plainly a URL's user, host, port or database.
    Of streams, lakes and Spark a value from a reference is none if its key is one of `NAMES`, or if it is shorter than
    `LEAST`: nobody could read a text in which each 4 is masked.
    """
    secrets: set[str] = set()
    harmless: set[str] = set()
    for section in SECTIONS:
        node = root.items.get(section)
        for mark, text in _texts(node) if node else ():
            secrets.update(_in_url(text))
            harmless.update(_plain_parts(text))
            if _tells(mark, text) or (section == "alerts" and mark.path[-1] == "url"):
                secrets.add(text)
    for section in STREAMS:
        node = root.items.get(section)
        requests = (each for each in (_texts(node) if node else ()) if _of_request(each[0]))
        secrets.update(text for mark, text in requests if _tells(mark, text))
        secrets.update(text for mark, text in (_texts(node) if node else ()) if _of_webhook(mark))
    secrets.update(text for mark, text in found if text not in harmless and _may_be_secret(mark, text))
    forms = {form for secret in secrets for form in _forms(secret)}
    return tuple(sorted((form for form in forms if form), key=lambda form: (-len(form), form)))


def _forms(secret: str) -> Iterator[str]:
    """The forms in which texts hold a secret: as it is, on one line, and as URLs, JSON, Python, HTML, SQL write it."""
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= LEAST)
    yield " ".join(secret.split())
    for text in {secret, secret.strip()}:  # an error's text ends without what stands at its ends
        yield from (text, quote(text, safe=""), quote_plus(text), quote(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
        # Python escapes an apostrophe where the text around it has a quotation mark.
        yield from (repr(f"\"'{text}")[4:-1], html.escape(text), text.replace("'", "''"))


def redacting(url: str) -> Callable[[str], str]:
    """A `redact` for a URL that no project holds yet."""
    found = collect(from_values({"connections": {"new": url}}), ())
    return lambda text: redact(text, found)


def redact(text: str, secrets: Collection[str]) -> str:
    """The text with every secret masked, the beginning of one where the text was cut, and the password of any URL."""
    return masked(text, (*_spans(text, secrets), *logins(text)))


def _spans(text: str, secrets: Collection[str]) -> Iterator[tuple[int, int]]:
    for secret in secrets:
        yield from spans_of(text, secret)
        if CUT in text:
            yield from begun_at_cuts(text, secret)


def _tells(mark: Mark, text: str) -> bool:
    """Whether the key says that the value is a secret; a switch is none."""
    return bool(SECRET_NAME.search(mark.path[-1])) and text.lower() not in ("true", "false")


def _may_be_secret(mark: Mark, text: str) -> bool:
    if _section(mark) in LOGINS or _of_request(mark) or _tells(mark, text):
        return True
    return len(text) >= LEAST and NAMES.isdisjoint(mark.path[2:])


def _of_request(mark: Mark) -> bool:
    """Whether a value is part of what an API is sent, or a source of dlt called with."""
    return _section(mark) in STREAMS and "source" in mark.path and not set(REQUEST).isdisjoint(mark.path)


def _of_webhook(mark: Mark) -> bool:
    """Whether a value is the URL of a webhook, which may be its own password."""
    return HOOKS in mark.path and mark.path[-1] in ("webhook", "url")


def _section(mark: Mark) -> str:
    """The section of the project that a value belongs to, also where a profile states it."""
    return mark.path[2] if mark.path[0] == "profiles" and len(mark.path) > 2 else mark.path[0]


def _texts(node: Node) -> Iterator[tuple[Mark, str]]:
    if isinstance(node.value, dict):
        for item in node.value.values():
            yield from _texts(item)
    elif isinstance(node.value, list):
        for item in node.value:
            yield from _texts(item)
    elif isinstance(node.value, str):
        yield node.mark, node.value


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    login = text.partition("://")[2].rpartition("@")[0]
    if ":" in login:
        written = login.partition(":")[2]
        yield written
        yield unquote(written)
    query = text.partition("?")[2]
    yield from (value for name, value in parse_qsl(query) if SECRET_NAME.search(name))


def _plain_parts(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        found = (parts.scheme, parts.username, parts.hostname, str(parts.port), parts.path.strip("/"))
    except ValueError:
        return
    for part in found:
        if part:
            yield part
            yield unquote(part)
