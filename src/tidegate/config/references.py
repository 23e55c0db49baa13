"""Resolves `${…}` references to environment variables, files and secret stores.

Runs once on the whole project file, before validation. Never shows a resolved value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate import extras
from tidegate.config.nodes import Mark, Node, Problems
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from azure.keyvault.secrets import SecretClient
    from google.cloud.secretmanager import SecretManagerServiceClient

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
DEFAULTS = "defaults"
"""The key of a connection that holds what its streams have in common."""
# What stands before a value of an option in a URL's query; a reference to a whole URL may have begun it.
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://[^?#]*\?(?:[^#]*&)?[^=&#]+=[^&#]*")
_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


TIMEOUT = 10.0  # seconds
AZURE = "Write `${azure:VAULT/NAME}`; the account needs the role Key Vault Secrets User."
EXTRAS = {"aws": "boto3", "gcp": "google-cloud-secret-manager", "azure": "azure-keyvault-secrets"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """What refers to a variable, file or secret that is not there, by name, and why.

    Args:
        connections: what opens no source goes on without them.
        channels: of alerts; they are switched off.
    """

    connections: dict[str, ConfigError] = field(default_factory=dict)
    channels: dict[str, ConfigError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Where references look: the environment, and the folder that relative files are in."""

    environ: Mapping[str, str]
    folder: Path
    found: list[tuple[Mark, str]] = field(default_factory=list, repr=False)
    asked: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def resolve(self, node: Node) -> Node:
        """The same values with every `${NAME}`, `${NAME:-default}` and `${file:/path}` replaced.

        `found` remembers each replacement and where it was used, but for defaults, which the file itself states. `$${`
        stands for a plain `${`. A reference in the login part of a URL, or in the value of an option in its query, is
        percent-encoded, so that any password, key or token fits into it.

        Raises:
            ConfigError: a variable that is not set or a file that cannot be read (`context["absent"]` names it), or a
                reference without an end.
        """
        if isinstance(node.value, dict):
            return replace(node, value={key: self.resolve(item) for key, item in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self.resolve(item) for item in node.value])
        if isinstance(node.value, str) and "${" in node.value:
            return replace(node, value=self._text(node.value, node.mark))
        return node

    def resolve_project(self, root: Node, problems: Problems) -> tuple[Node, Absent]:
        """The same for a whole project; what refers to what is absent and can be done without is left out.

        Args:
            problems: gets what is wrong elsewhere; values with a problem stay as they are.
        """
        absent = Absent()
        optional: dict[tuple[str, ...], Callable[[Node], Node]] = {
            ("connections",): lambda node: self._but_absent(node, absent.connections, self._defaults_alone, problems),
            ("alerts", "channels"): lambda node: self._but_absent(node, absent.channels, _switched_off, problems),
        }
        return self._resolve_each(root, problems, optional), absent

    def _resolve_each(
        self,
        node: Node,
        problems: Problems,
        optional: Mapping[tuple[str, ...], Callable[[Node], Node]],
        path: tuple[str, ...] = (),
    ) -> Node:
        if not isinstance(node.value, dict):
            with problems.kept():
                return self.resolve(node)
            return node
        if path in optional:
            return optional[path](node)
        items = {key: self._resolve_each(item, problems, optional, (*path, key)) for key, item in node.value.items()}
        return replace(node, value=items)

    def _but_absent(
        self, section: Node, absent: dict[str, ConfigError], without: Callable[[Node], Node], problems: Problems
    ) -> Node:
        """A section, and of its entries that refer to what is absent what is left without it, with the reason."""
        ready: dict[str, Node] = {}
        for name, node in section.items.items():
            mark = len(self.found)
            try:
                ready[name] = self.resolve(node)
            except ConfigError as error:
                if "absent" not in error.context:
                    problems.found.append(error)
                del self.found[mark:]
                ready[name], absent[name] = without(node), error
        return replace(section, value=ready)

    def _defaults_alone(self, node: Node) -> Node:
        """A connection whose own references are absent; the defaults of its streams are resolved all the same."""
        if not isinstance(node.value, dict) or DEFAULTS not in node.value:
            return node
        return replace(node, value={**node.value, DEFAULTS: self.resolve(node.value[DEFAULTS])})

    def _text(self, text: str, mark: Mark) -> str:
        # Without the references' own characters a URL's login part is found by its slashes and its "@".
        outline = _REFERENCE.sub(lambda match: "x" * len(match.group()), text)
        resolved, at = "", 0
        for match in _REFERENCE.finditer(text):
            resolved += text[at : match.start()]
            at = match.end()
            if match.group() == "$${":
                resolved += "${"
                continue
            value = self._value(match.group("body"), mark)
            encoded = _in_login(outline, match.start()) or _OPTION.fullmatch(resolved)
            resolved += quote(value, safe="") if encoded else value
        return resolved + text[at:]

    def _value(self, body: str | None, mark: Mark) -> str:
        if body is None:
            raise mark.error("has a `${` without a `}`; write `$${` for a plain `${`")
        value = self._lookup(body, mark)
        if not body.endswith(f":-{value}"):  # a default stands in the file for all to read
            self.found.append((mark, value))
        return value

    def _lookup(self, body: str, mark: Mark) -> str:
        if body.startswith("file:"):
            return self._file(body.removeprefix("file:"), mark)
        store, colon, name = body.partition(":")
        if colon and store in STORES:
            return self._stored(store, name, mark)
        match = _NAME.fullmatch(body)
        if match is None:
            stores = ", ".join(f"${{{each}:secret}}" for each in STORES)
            raise mark.error(
                f"has the reference ${{{body}}}; write ${{NAME}}, ${{NAME:-default}}, ${{file:/path}}, {stores}"
            )
        name, default = match["name"], match["default"]
        value = self.environ.get(name)
        if default is not None and not value:
            return default
        if value is None:
            raise mark.error(
                f"needs the environment variable {name}, which is not set",
                hint=f"Set it with `export {name}=…` or in the file .env, or give a default: ${{{name}:-default}}.",
                absent=name,
            )
        return value

    def _stored(self, store: str, name: str, mark: Mark) -> str:
        try:
            if (store, name) not in self.asked:
                self.asked[store, name] = fetch(store, name)
            return self.asked[store, name]
        except SecretUnavailable as error:
            raise mark.error(f"needs the secret {store}:{name}; {error}", hint=error.hint, absent=name) from error

    def _file(self, path: str, mark: Mark) -> str:
        try:
            return (self.folder / path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise mark.error(
                f"needs the file {path}, which cannot be read: {reason}",
                hint="Correct the path or the file's permissions.",
                absent=path,
            ) from error


def _switched_off(channel: Node) -> Node:
    """A channel of alerts without an address; what else is wrong with it is still found."""
    if not isinstance(channel.value, dict) or "url" not in channel.value:
        return channel
    return channel.updated({"url": replace(channel.value["url"], value="")})


def _in_login(outline: str, start: int) -> bool:
    before, after = outline[:start], outline[start:]
    return bool(re.search(r"://[^/?#@]*$", before)) and bool(re.match(r"[^/?#]*@", after))


class SecretUnavailable(Exception):
    """A secret that cannot be read; says why, and `hint` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def fetch(store: str, name: str) -> str:
    """The secret of that name.

    Args:
        store: one of `STORES`.
        name: as the store names it; after `#` a key, for a secret that is a JSON object.

    Raises:
        SecretUnavailable: the library is not installed, the store cannot be reached or refuses, or there is no such
            secret or key.
    """
    named, _, key = name.partition("#")
    if not named:
        raise SecretUnavailable("its name is empty", f"Write `${{{store}:name}}`.")
    try:
        text = STORES[store](named)
    except ImportError as error:
        raise SecretUnavailable(f"{EXTRAS[store]} is not installed", extras.hint(store)) from error
    return _value_of(text, key) if key else text


def _value_of(text: str, key: str) -> str:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    hint = "Leave `#key` out for a secret that is one text, or correct the key."
    if not isinstance(values, dict):
        raise SecretUnavailable(f"it is not a JSON object, so it has no key {key!r}", hint)
    if key not in values:
        raise SecretUnavailable(f"it has no key {key!r}", hint)
    value = values[key]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise SecretUnavailable(f"its key {key!r} holds no text", hint)
    return str(value)


def _aws(name: str) -> str:
    """AWS Secrets Manager; region, credentials and endpoint as boto3 finds them."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - only for projects that refer to it
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    hint = f"`aws secretsmanager describe-secret --secret-id {name}` asks with the same credentials."
    try:
        settings = Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries={"max_attempts": 2})
        client = boto3.client("secretsmanager", config=settings)
        found = client.get_secret_value(SecretId=name)
    except ClientError as error:
        raise SecretUnavailable(f"AWS refuses it: {error.response['Error'].get('Code', 'unknown')}", hint) from error
    except BotoCoreError as error:
        raise SecretUnavailable(f"AWS cannot be asked: {type(error).__name__}", hint) from error
    return _text(found.get("SecretString"), hint)


def _gcp(name: str) -> str:
    """Google Cloud Secret Manager; credentials as Google's library finds them."""
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - only for projects that refer to it
    from google.cloud.secretmanager import SecretManagerServiceClient  # noqa: PLC0415 - as above

    try:
        return read_gcp(SecretManagerServiceClient(), name)
    except GoogleAuthError as error:
        hint = "`gcloud auth application-default login` logs in; on Google Cloud the machine's account is used."
        raise SecretUnavailable(f"Google Cloud cannot be asked: {type(error).__name__}", hint) from error


def read_gcp(client: SecretManagerServiceClient, name: str) -> str:
    """The text of a secret, in its latest version unless the name states one. Raises SecretUnavailable."""
    from google.api_core.exceptions import GoogleAPIError  # noqa: PLC0415 - only for projects that refer to it

    hint = "Write `${gcp:projects/PROJECT/secrets/NAME}`; the account needs the role Secret Manager Secret Accessor."
    version = name if "/versions/" in name else f"{name}/versions/latest"
    try:
        return str(client.access_secret_version(name=version, timeout=TIMEOUT).payload.data.decode())
    except GoogleAPIError as error:
        raise SecretUnavailable(f"Google Cloud refuses it: {type(error).__name__}", hint) from error
    except UnicodeDecodeError as error:
        raise SecretUnavailable("it is not a text", hint) from error


def _azure(name: str) -> str:
    """Azure Key Vault, `VAULT/SECRET`; credentials as Azure's library finds them."""
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - only for projects that refer to it
    from azure.keyvault.secrets import SecretClient  # noqa: PLC0415 - as above

    vault, slash, secret = name.rpartition("/")
    if not slash:
        raise SecretUnavailable("its name has no vault", AZURE)
    url = vault if "://" in vault else f"https://{vault}.vault.azure.net"
    with DefaultAzureCredential() as login, SecretClient(url, login, connection_timeout=TIMEOUT) as client:
        return read_azure(client, secret)


def read_azure(client: SecretClient, name: str) -> str:
    """The text of a secret, in its current version. Raises SecretUnavailable."""
    from azure.core.exceptions import AzureError  # noqa: PLC0415 - only for projects that refer to it

    try:
        return _text(client.get_secret(name).value, AZURE)
    except AzureError as error:
        raise SecretUnavailable(f"Azure refuses it: {type(error).__name__}", AZURE) from error


def _text(value: Any, hint: str) -> str:
    if not isinstance(value, str):
        raise SecretUnavailable("it is not a text", hint)
    return value


STORES: Mapping[str, Callable[[str], str]] = {"aws": _aws, "gcp": _gcp, "azure": _azure}
