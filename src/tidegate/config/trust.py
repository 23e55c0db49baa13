"""Refuses what a project file could run code with, unless whoever runs the command trusts the file.

Settings are allowed by name, so that a setting that nobody has judged is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from tidegate.config.nodes import Node
from tidegate.config.options import KIND
from tidegate.core.keepalive import LIBPQ
from tidegate.core.spelling import nearest
from tidegate.errors import ConfigError

FLAG = "--trust-project"
VARIABLE = "TIDEGATE_TRUST_PROJECT"
"""The environment variable that stands for the flag; `1` trusts. Never read from `.env`, which is the project's own."""

HINT = f"Remove it, or run the command with `{FLAG}` (or {VARIABLE}=1) if you trust whoever can write this file."

# Within what is allowed: the last word of a part of a name whose value is code, or a place that code is loaded from.
_CODE = re.compile(
    r"(class(es)?|class-?name|class-?path|impl|plugins?|jars?|packages|extensions?|listeners?|factory|factories|"
    r"providers?|signers?|binding|serializer|codec|command|script|options|java|python|manager|reporter)$",
    re.IGNORECASE,
)
_SPARK = re.compile(
    r"""spark\.(
    app\.name | master
    | (driver|executor)\.(memory|cores|instances|memoryOverhead|memoryOverheadFactor|maxResultSize|heartbeatInterval)
    | driver\.(host|port|bindAddress) | blockManager\.port | port\.maxRetries | ui\.(enabled|port|showConsoleProgress)
    | cores\.max | default\.parallelism | local\.dir | locality\..* | speculation.* | task\.(cpus|maxFailures)
    | dynamicAllocation\..* | memory\..* | network\..* | rpc\..* | reducer\..* | broadcast\..* | cleaner\..*
    | shuffle\.(compress|file\.buffer|io\..*|service\.enabled|spill\.compress|sort\.bypassMergeThreshold)
    | scheduler\.(mode|minRegisteredResourcesRatio) | io\.encryption\..* | rdd\.compress
    | authenticate(\..*)? | eventLog\.(enabled|dir|compress|overwrite|rolling\..*) | files\..* | log\.level
    | kryoserializer\.buffer(\.max)? | yarn\.(queue|tags|maxAppAttempts|am\.(memory|cores)) | excludeOnFailure\..*
    | sql\.(
        adaptive\..* | shuffle\..* | files\..* | parquet\..* | orc\..* | codegen\..* | execution\..* | ansi\..*
        | json\..* | csv\..* | avro\..* | join\..* | optimizer\..* | sources\..* | statistics\..* | legacy\..*
        | session\..* | inMemoryColumnarStorage\..* | iceberg\..* | autoBroadcastJoinThreshold | broadcastTimeout
        | caseSensitive | maxPlanStringLength | debug\.maxToStringFields | storeAssignmentPolicy | timestampType
        | variable\.substitute | objectHashAggregate\..* | sort\..* | subquery\..* | ui\..* | decimalOperations\..*
        | warehouse\.dir | windowExec\..* | mapKeyDedupPolicy | constraintPropagation\.enabled | limit\..*
      )
    | databricks\.delta\..* | delta\..*
    | hadoop\.(
        fs\.s3a\..* | fs\.azure\..* | fs\.gs\..* | google\.cloud\.auth\..* | parquet\..* | io\.file\.buffer\.size
        | mapreduce\.fileoutputcommitter\.algorithm\.version | fs\.defaultFS | dfs\..*
      )
    )""",
    re.VERBOSE,
)
_CLASS = re.compile(r"\s*[A-Za-z_]\w*(\.\w+)*\.[A-Z]\w*\s*")
# Names that would be refused, or allowed with any value, and the values that run no code.
_VALUES: Mapping[str, str] = {
    r"spark\.hadoop\.fs\.s3a\.(bucket\.[\w.-]+\.)?aws\.credentials\.provider": (
        r"org\.apache\.hadoop\.fs\.s3a\.(SimpleAWS|TemporaryAWS|AnonymousAWS)CredentialsProvider|software\.amazon\."
        r"awssdk\.auth\.credentials\.(EnvironmentVariable|InstanceProfile|Container|Anonymous)CredentialsProvider"
    ),
    r"spark\.hadoop\.fs\.azure\.account\.auth\.type(\..*)?": r"SharedKey|OAuth|SAS",
    r"spark\.hadoop\.fs\.azure\.account\.oauth\.provider\.type(\..*)?": (
        r"org\.apache\.hadoop\.fs\.azurebfs\.oauth2\.(ClientCreds|Msi|WorkloadIdentity)TokenProvider"
    ),
    r"spark\.sql\.(parquet|orc|avro)\.compression\.codec": r"\w+",
    r"rest\.auth\.type": r"none|basic|oauth2|sigv4|google",
}
# Options of a catalog that run no code, and what others begin with.
_OPTIONS = (
    "type",
    "path",
    "uri",
    "url",
    "token",
    "credential",
    "scope",
    "audience",
    "resource",
    "prefix",
    "oauth2-server-uri",
    "token-expires-in-ms",
    "token-refresh-enabled",
    "hive.kerberos-authentication",
    "hive.hive2-compatible",
    "clients",
    "client_secret",
    "warehouse",
    "cache-enabled",
    "rest-page-size",
    "view-endpoints-supported",
    "snapshot-loading-mode",
)
_CATALOG = re.compile(
    r"(s3|gcs|adls|glue|client|dynamodb|header|rest|cache|table-default|table-override|ssl|http-client)\..+|"
    + "|".join(map(re.escape, _OPTIONS))
)
_CODE_HOOKS = frozenset({"dbt"})
# Parameters of a catalog's URL: those of libpq, none of which the JDBC driver takes for a class.
_LIBPQ = frozenset(
    [
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "application_name",
        "connect_timeout",
        "options",
        "target_session_attrs",
        "channel_binding",
        "gssencmode",
        "keepalives",
    ]
).union(LIBPQ)


def by_variable(environ: Mapping[str, str]) -> bool:
    """Whether the environment of the process trusts the project."""
    return environ.get(VARIABLE, "").lower() in ("1", "true", "yes")


def refused(root: Node, checks: Iterable[Node], hooks: Iterable[Node]) -> Iterator[ConfigError]:
    """What runs code, each with its line.

    Args:
        root: the project, its references resolved.
        checks, hooks: of every stream.
    """
    yield from _conf(root)
    for lake in _entries(root.get("lakes")):
        yield from _catalog(lake)
    for section in (root.get("defaults"), *_entries(root.get("streams"))):
        source = section.get("source") if section is not None and isinstance(section.value, dict) else None
        named = source.get("dlt") if source is not None and isinstance(source.value, dict) else None
        if named is not None:
            yield named.mark.error("imports and calls Python code", hint=HINT)
    for check in checks:
        yield from _sql(check)
    for hook in hooks:
        kind = hook.get(KIND)
        if kind is not None and kind.value in _CODE_HOOKS:
            yield kind.mark.error("runs the macros and models of a dbt project", hint=HINT)


def allowed(name: str, value: str, known: re.Pattern[str]) -> bool:
    """Whether a setting is one of those that can run no code.

    Example:
        >>> allowed("spark.driver.memory", "4g", _SPARK), allowed("spark.plugins", "org.evil.Plugin", _SPARK)
        (True, False)
    """
    for pattern, values in _VALUES.items():
        if re.fullmatch(pattern, name):
            return all(re.fullmatch(values, each.strip()) for each in value.split(","))
    if not known.fullmatch(name) or _CLASS.fullmatch(value):
        return False
    return not any(_CODE.search(word) for word in re.split(r"[._]|(?<=[a-z])(?=[A-Z])", name))


def _conf(root: Node) -> Iterator[ConfigError]:
    spark = root.get("spark")
    for name, node in _items(spark.get("conf") if spark is not None and isinstance(spark.value, dict) else None):
        if not allowed(name, str(node.value).strip(), _SPARK):
            yield node.mark.error("is not a setting of Spark that is known to run no code", hint=HINT)


def _catalog(lake: Node) -> Iterator[ConfigError]:
    catalog = lake.get("catalog") if isinstance(lake.value, dict) else None
    for name, node in _items(catalog):
        if not allowed(name, str(node.value), _CATALOG):
            near = nearest(name, _OPTIONS)
            meant = f"; did you mean {near!r}?" if near and near != name else ""
            yield node.mark.error(f"is not an option of a catalog that is known to run no code{meant}", hint=HINT)
        if name in ("uri", "url") and not str(node.value).startswith("http"):
            words = [word for word, _ in parse_qsl(urlsplit(str(node.value)).query, keep_blank_values=True)]
            place = next((at for at, word in enumerate(words, 1) if word not in _LIBPQ), None)
            if place is not None:  # not by its name, which may be the rest of a password
                yield node.mark.error(f"has a parameter that may load code, parameter {place} of its query", hint=HINT)


def _sql(check: Node) -> Iterator[ConfigError]:
    for key in ("sql", "where"):
        node = check.get(key)
        if node is not None and isinstance(node.value, str):
            from tidegate.spark.functions import refusal  # noqa: PLC0415 - few projects state SQL of Spark

            if why := refusal(node.value):
                yield node.mark.error(why, hint=HINT)


def _items(node: Node | None) -> Iterable[tuple[str, Node]]:
    return node.items.items() if node is not None and isinstance(node.value, dict) else ()


def _entries(node: Node | None) -> Iterable[Node]:
    return [each for _, each in _items(node)]
