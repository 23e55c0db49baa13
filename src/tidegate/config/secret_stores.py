"""Reads secrets from the secret managers of AWS, Google Cloud and Azure, each through the vendor's own library.

A library is imported, and a store asked, only where a project refers to it. No message holds a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate import extras

if TYPE_CHECKING:
    from azure.keyvault.secrets import SecretClient
    from google.cloud.secretmanager import SecretManagerServiceClient

TIMEOUT = 10.0  # seconds
AZURE = "Write `${azure:VAULT/NAME}`; the account needs the role Key Vault Secrets User."
EXTRAS = {"aws": "boto3", "gcp": "google-cloud-secret-manager", "azure": "azure-keyvault-secrets"}


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
