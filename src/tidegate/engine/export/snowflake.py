"""Statements with which Snowflake reads a project's tables: volume, catalog integration, tables, and their refresh.

Made from the project and the tables' metadata, without Spark and without a login at Snowflake. Never holds a secret:
what only its user knows stands in angle brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.core.addresses import is_loopback
from tidegate.core.ids import Target
from tidegate.core.table_facts import TableAddress
from tidegate.errors import ConfigError

HEADER = "-- Written by `tidegate export snowflake`; changes are lost when it runs again."
FILL_IN = "-- Fill in what stands in <angle brackets>. Everything can be run again: what is there stays as it is."
OPEN_CATALOG = "/polaris/api/catalog"
STORES = "s3://, gs:// or abfss://"
PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
SERVED = ("rest", "glue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A stream's table."""

    stream: str
    target: Target
    address: TableAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class SnowflakeScript:
    """The statements.

    Args:
        text: SQL, in the order in which it is to be run.
        refresh: the statements that show Snowflake the tables' newest rows; `text` holds them, too.
        left_out: for people, which tables are not in it and why.
    """

    text: str
    tables: int
    refresh: tuple[str, ...]
    left_out: tuple[str, ...]


def snowflake(tables: Sequence[Table], database: str | None = None, unknown: Sequence[str] = ()) -> SnowflakeScript:
    """The script for these tables.

    Args:
        database: the database at Snowflake that gets the tables; by default one with the name of each lake.
        unknown: streams whose tables have no address, and why.

    Raises:
        ConfigError: Snowflake can read none of them.
    """
    why = {table.stream: _unreadable(table.address) for table in tables}
    left_out = (*unknown, *(f"{stream}: {reason}" for stream, reason in why.items() if reason))
    taken = [table for table in tables if why[table.stream] is None]
    if left_out and not taken:
        raise ConfigError(
            f"Snowflake can read none of these tables: {'; '.join(left_out)}",
            hint="docs/lakes/snowflake.md lists the lakes that Snowflake reads.",
        )
    _refuse_one_name(taken, database)
    made: list[str] = []
    for table in taken:
        made += [_volume(table), _integration(table), *_places(table, database), _table(table, database)]
    refresh = tuple(_refresh(table, database) for table in taken)
    served = [table for table, each in zip(taken, refresh, strict=True) if each.endswith("REFRESH;")]
    parts = [HEADER, FILL_IN, *(f"-- Left out: {_line(each)}" for each in left_out)]
    sections = ["\n".join(parts), *dict.fromkeys(filter(None, made)), _after_loads(served, refresh, database)]
    return SnowflakeScript(text="\n\n".join(sections), tables=len(taken), refresh=refresh, left_out=left_out)


def _refuse_one_name(tables: Sequence[Table], database: str | None) -> None:
    """Raises ConfigError where two tables would have one name, under which Snowflake would show the rows of one."""
    streams: dict[str, str] = {}
    for table in tables:
        name = _name(table.target, database)
        if (other := streams.setdefault(name, table.stream)) != table.stream:
            raise ConfigError(
                f"the tables of {other} and {table.stream} would both be {name} at Snowflake",
                hint="Export them apart, each with a `--database` of its own.",
            )


def _unreadable(address: TableAddress) -> str | None:  # noqa: PLR0911 - one answer a reason
    """Why Snowflake cannot read the table; None where it can."""
    root = address.warehouse
    if address.catalog == "rest":
        host = urlsplit(address.options["uri"]).hostname or ""
        if is_loopback(host):
            return f"its REST catalog is at {host}, which Snowflake cannot reach"
        if not _has_volume(address):
            return None
    if root is None:
        return "its warehouse is not known; name it with `warehouse:`"
    if root.startswith("file:"):
        return f"its warehouse is a folder of this machine, which Snowflake cannot read; it reads {STORES}"
    if not re.match(r"(s3a?|gs|abfss)://", root):
        return f"its warehouse is at {root.partition(':')[0]}://, and Snowflake reads {STORES}"
    if is_loopback(urlsplit(address.options.get("s3.endpoint", "")).hostname or ""):
        return "its object store is on this machine, which Snowflake cannot reach"
    if address.catalog not in SERVED and address.path is None:
        return "the table does not exist yet; load it once"
    if address.path is not None and not address.path.startswith(f"{root}/"):
        return "the table does not lie below the warehouse of its lake"
    return None


def _volume(table: Table) -> str:
    """The external volume of the lake's object store; nothing where the catalog lends Snowflake its access."""
    address = table.address
    if not _has_volume(address):
        return ""
    root = urlsplit(address.warehouse or "")
    path = f"{root.path.strip('/')}/" if root.path.strip("/") else ""
    endpoint = address.options.get("s3.endpoint")
    match root.scheme:
        case "gs":
            found = {"STORAGE_PROVIDER": "GCS", "STORAGE_BASE_URL": f"gcs://{root.netloc}/{path}"}
        case "abfss":
            container, _, host = root.netloc.partition("@")
            account = host.partition(".")[0]
            url = f"azure://{account}.blob.core.windows.net/{container}/{path}"
            found = {"STORAGE_PROVIDER": "AZURE", "STORAGE_BASE_URL": url, "AZURE_TENANT_ID": "<tenant id>"}
        case _ if endpoint is not None:
            found = {"STORAGE_PROVIDER": "S3COMPAT", "STORAGE_BASE_URL": f"s3compat://{root.netloc}/{path}"}
            found["STORAGE_ENDPOINT"] = urlsplit(endpoint).netloc or endpoint
        case _:
            found = {"STORAGE_PROVIDER": "S3", "STORAGE_BASE_URL": f"s3://{root.netloc}/{path}"}
            found["STORAGE_AWS_ROLE_ARN"] = "<arn of a role that may read the bucket>"
    words = [f"{word} = {_text(value)}" for word, value in {"NAME": table.target.lake, **found}.items()]
    if root.scheme.startswith("s3") and endpoint is not None:
        words.append("CREDENTIALS = (AWS_KEY_ID = '<key id>' AWS_SECRET_KEY = '<secret key>')")
    inside = "\n    ".join(words)
    return (
        f"CREATE EXTERNAL VOLUME IF NOT EXISTS {_own(table, 'volume')}\n"
        f"  STORAGE_LOCATIONS = ((\n    {inside}\n  ))\n  ALLOW_WRITES = FALSE;"
    )


def _has_volume(address: TableAddress) -> bool:
    """Whether Snowflake reads the files with access of its own; a REST catalog may lend it that of the catalog."""
    place = address.warehouse or ""
    return address.catalog != "rest" or "://" in place or place.startswith("file:")


def _integration(table: Table) -> str:
    """The catalog integration of the lake."""
    address = table.address
    match address.catalog:
        case "rest":
            found = _of_rest(address)
        case "glue":
            region = address.options.get("client.region") or address.options.get("glue.region") or "<region>"
            found = [
                "CATALOG_SOURCE = GLUE",
                "TABLE_FORMAT = ICEBERG",
                "GLUE_AWS_ROLE_ARN = '<arn of a role that may read the catalog>'",
                f"GLUE_CATALOG_ID = {_text(address.options.get('glue.id', '<number of the AWS account>'))}",
                f"GLUE_REGION = {_text(region)}",
            ]
        case _:
            found = ["CATALOG_SOURCE = OBJECT_STORE", f"TABLE_FORMAT = {address.format.upper()}"]
    inside = "\n  ".join([*found, "ENABLED = TRUE"])
    return f"CREATE CATALOG INTEGRATION IF NOT EXISTS {_own(table, 'catalog')}\n  {inside};"


def _of_rest(address: TableAddress) -> list[str]:
    uri = urlsplit(address.options["uri"])
    host = uri.netloc.rpartition("@")[2]
    place = f"{uri.scheme}://{host}{uri.path}".rstrip("/")
    name = address.warehouse if address.warehouse and "://" not in address.warehouse else None
    config = [f"CATALOG_URI = {_text(place)}"]
    config += [f"PREFIX = {_text(address.options['prefix'])}"] if "prefix" in address.options else []
    config += [f"CATALOG_NAME = {_text(name)}"] if name else []
    config += [] if _has_volume(address) else ["ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS"]
    source = "POLARIS" if OPEN_CATALOG in place else "ICEBERG_REST"
    return [
        f"CATALOG_SOURCE = {source}",
        "TABLE_FORMAT = ICEBERG",
        f"REST_CONFIG = (\n    {_lines(config)}\n  )",
        f"REST_AUTHENTICATION = (\n    {_lines(_login(address))}\n  )",
    ]


def _login(address: TableAddress) -> list[str]:
    """How Snowflake logs in: as the project does; by OAuth where that cannot be seen."""
    if address.options.get("rest.sigv4-enabled", "").lower() == "true":
        region = address.options.get("rest.signing-region", "<region>")
        return ["TYPE = SIGV4", "SIGV4_IAM_ROLE = '<arn of a role>'", f"SIGV4_SIGNING_REGION = {_text(region)}"]
    if "token" in address.logins and "credential" not in address.logins:
        return ["TYPE = BEARER", "BEARER_TOKEN = '<token>'"]
    token_uri = address.options.get("oauth2-server-uri")
    scopes = address.options.get("scope", "PRINCIPAL_ROLE:ALL").split()
    return [
        "TYPE = OAUTH",
        *([f"OAUTH_TOKEN_URI = {_text(token_uri)}"] if token_uri else []),
        "OAUTH_CLIENT_ID = '<client id>'",
        "OAUTH_CLIENT_SECRET = '<client secret>'",
        f"OAUTH_ALLOWED_SCOPES = ({', '.join(map(_text, scopes))})",
    ]


def _places(table: Table, database: str | None) -> tuple[str, str]:
    held, schema, _ = _parts(table.target, database)
    return f"CREATE DATABASE IF NOT EXISTS {held};", f"CREATE SCHEMA IF NOT EXISTS {held}.{schema};"


def _table(table: Table, database: str | None) -> str:
    address, target = table.address, table.target
    words = [f"CATALOG = {_text(_unquoted(_own(table, 'catalog')))}"]
    if _has_volume(address):
        words.insert(0, f"EXTERNAL_VOLUME = {_text(_unquoted(_own(table, 'volume')))}")
    if address.catalog in SERVED:
        words += [f"CATALOG_NAMESPACE = {_text('.'.join(target.namespace))}"]
        words += [f"CATALOG_TABLE_NAME = {_text(target.table)}", "AUTO_REFRESH = TRUE"]
    elif address.format == "delta":
        words += [f"BASE_LOCATION = {_text(_below(address))}", "AUTO_REFRESH = TRUE"]
    else:
        words += [f"METADATA_FILE_PATH = {_text(_below(address))}"]
    return f"CREATE ICEBERG TABLE IF NOT EXISTS {_name(target, database)}\n  {_lines(words, 2)};"


def _refresh(table: Table, database: str | None) -> str:
    """What shows Snowflake the newest rows; with the metadata file where no catalog tells it which is the newest."""
    address = table.address
    follows = address.catalog in SERVED or address.format == "delta"
    return (
        f"ALTER ICEBERG TABLE {_name(table.target, database)} REFRESH{'' if follows else f' {_text(_below(address))}'};"
    )


def _after_loads(served: Sequence[Table], refresh: Sequence[str], database: str | None) -> str:
    """The refresh, and how the project does it after each load."""
    lines = ["-- After each load:", *refresh]
    if len(served) < len(refresh):
        lines += [
            "-- A table with a path there shows that file's rows for ever: no catalog tells Snowflake of newer ones.",
            "-- Run this command again after each load, and its last statements.",
        ]
    if served:
        lines.append("-- Or let the project do it, at a connection of Snowflake:")
    for table in served:
        hook = json.dumps(_refresh(table, database).removesuffix(";"))
        lines.append(f"--   {_line(table.stream)}: after_publish: [{{sql: {hook}, connection: <connection>}}]")
    return "\n".join(lines)


def _below(address: TableAddress) -> str:
    """The path from the volume on."""
    return (address.path or "").removeprefix(f"{address.warehouse}/")


def _own(table: Table, kind: str) -> str:
    """The name of an object of the account, one for each lake."""
    return _identifier(f"tidegate_{table.target.lake}_{kind}")


def _name(target: Target, database: str | None) -> str:
    return ".".join(_parts(target, database))


def _parts(target: Target, database: str | None) -> tuple[str, str, str]:
    """Database, schema and table at Snowflake, where a name without quotes is in upper case."""
    held = database or target.lake
    return _identifier(held), _identifier("_".join(target.namespace)), _identifier(target.table)


def _identifier(name: str) -> str:
    """As people find it without quotes, if it can be written without; quoted all the same, as it may be a word."""
    held = name.upper() if PLAIN.fullmatch(name) else name
    return '"' + held.replace('"', '""') + '"'


def _unquoted(identifier: str) -> str:
    """The name in a text, where quotes are kept for a name that needs them."""
    inner = identifier[1:-1]
    return inner if PLAIN.fullmatch(inner.lower()) and inner == inner.upper() else identifier


def _line(text: str) -> str:
    """A text that a comment can hold: the name of a table may have several lines."""
    return " ".join(text.split())


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _lines(words: Sequence[str], indent: int = 4) -> str:
    return f"\n{' ' * indent}".join(words)
