"""What a failure of Spark means, and what is never repeated of it."""

from __future__ import annotations

import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    EnvironmentMissing,
    FileUnreadable,
    OutOfMemory,
    SchemaRefused,
    SourceError,
    SourceUnavailable,
    SparkLost,
    TidegateError,
    WriteError,
)
from tidegate.spark.failures import needing, translate, translated

DRIVER = "org.duckdb.DuckDBDriver"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("org.apache.iceberg.exceptions.CommitStateUnknownException: Connection reset", CommitUnknown),
        ("java.lang.IllegalArgumentException: Cannot fast-forward: main is not an ancestor of b", CommitConflict),
        ("org.apache.iceberg.exceptions.CommitFailedException: stale", CommitConflict),
        ("Job aborted due to stage failure: org.postgresql.util.PSQLException: closed", SourceUnavailable),
        ("Job aborted due to stage failure: PSQLException: ERROR: could not import the snapshot", SourceUnavailable),
        ('Job aborted due to stage failure: PSQLException: ERROR: snapshot "3-1B-1" does not exist', SourceUnavailable),
        ("Job aborted due to stage failure: PSQLException: ERROR: division of 'secret-value' by zero", SourceError),
        ("Job aborted due to stage failure: ERROR: canceling statement due to lock timeout", SourceUnavailable),
        ("in stage 3: PSQLException: ERROR: canceling statement due to conflict with recovery", SourceUnavailable),
        ("in stage 3: PSQLException: ERROR: out of shared memory\n  Hint: You might need to increase", SourceError),
        ("in stage 3: org.postgresql.util.PSQLException: Ran out of memory retrieving query results.", OutOfMemory),
        ("in stage 3: org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.", OutOfMemory),
        ("Job aborted: org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] x", OutOfMemory),
        ("in stage 3: java.sql.SQLRecoverableException: gone\n\tat java.sql/java.sql.DriverManager", SourceUnavailable),
        ("in stage 3: RuntimeException: x\n\tat java.sql/java.sql.Timestamp.valueOf(Timestamp.java:1)", WriteError),
        ("in stage 3: RuntimeException: x\n\tat java.sql/java.sql.Date.valueOf(Date.java:1)", WriteError),
        ("in stage 3: org.apache.kafka.common.errors.TimeoutException: offsets of t-0", SourceUnavailable),
        ("SparkConnectGrpcException: status = StatusCode.UNAVAILABLE, refused", SparkLost),
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle 'x' is invalid", SparkLost),
        ("org.apache.iceberg.jdbc.UncheckedSQLException: failed; PSQLException: refused", WriteError),
        ("java.io.IOException: Mkdirs failed to create file:/x", WriteError),
        ("java.lang.ClassNotFoundException: org.apache.iceberg.spark.SparkCatalog", WriteError),
        ("[TABLE_OR_VIEW_NOT_FOUND] nope", CommitConflict),
        ("[CAST_INVALID_INPUT] The value 'secret-value' cannot be cast", WriteError),
    ],
)
def test_each_failure_has_its_error_and_no_text_of_spark(text: str, kind: type[TidegateError]) -> None:
    found = translate(RuntimeError(text), "writing to lake.a.b", "file:///w")
    assert type(found) is kind
    assert found.message.endswith("while writing to lake.a.b")
    assert "secret-value" not in found.message + found.hint


def test_a_time_that_spark_cannot_read_in_orc_is_the_file_s_and_no_lost_connection() -> None:
    stack = "in stage 3.0: java.lang.IllegalArgumentException: nanos > 999999999 or < 0\n\tat java.sql/java.sql."
    for said in ("Encountered error while reading file file:///in/1.orc. ", ""):
        found = translate(RuntimeError(f"{said}{stack}Timestamp.setNanos(Timestamp.java:336)"), "writing to lake.a.b")
        assert isinstance(found, FileUnreadable)
        assert f"{'1.orc' if said else 'a file'} has a timestamp within the last second before 1970" in found.message
        assert "exclude" in found.hint


def test_an_error_within_the_client_of_a_catalog_is_the_catalogs_whatever_spark_makes_of_it() -> None:
    text = "[INTERNAL_ERROR] a bug\njava.lang.IllegalStateException: closed\n\tat org.apache.iceberg.rest.X.y(X:1)"
    assert "the lake's catalog cannot be reached" in translate(RuntimeError(text), "opening lake.a.b").message


def test_the_condition_is_named_and_the_cause_kept() -> None:
    cause = RuntimeError("[ARITHMETIC_OVERFLOW] 99999 is too much")
    with pytest.raises(WriteError, match="ARITHMETIC_OVERFLOW") as error, translated("merging into x"):
        raise cause
    assert error.value.__cause__ is cause
    assert "99999" not in error.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] No `colour`, but [`id`]. SQLSTATE: 42703\n'Project ['secret-value']",
            "Spark failed (UNRESOLVED_COLUMN.WITH_SUGGESTION: No `colour`, but [`id`]) while reading t",
        ),
        (
            "[UNSUPPORTED_FEATURE.TABLE_OPERATION] Table `a` does not support MERGE. SQLSTATE: 0A000",
            "Spark failed (UNSUPPORTED_FEATURE.TABLE_OPERATION: Table `a` does not support MERGE) while reading t",
        ),
        (
            "org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: secret-value",
            "the lake's catalog refused the login, or what it may do, while reading t",
        ),
        (
            "org.apache.iceberg.exceptions.ForbiddenException: Forbidden: Status Code: 403 secret-value",
            "the lake's catalog refused the login, or what it may do, while reading t",
        ),
        (
            "java.lang.ClassNotFoundException: org.postgresql.Driver",
            "Spark lacks a class that the lake needs (org.postgresql.Driver) while reading t",
        ),
        ("[CAST_INVALID_INPUT] The value 'secret-value' is bad", "Spark failed (CAST_INVALID_INPUT) while reading t"),
    ],
)
def test_a_reason_made_of_names_is_repeated_and_no_other(text: str, said: str) -> None:
    assert translate(RuntimeError(text), "reading t").message == said


def test_our_own_errors_pass_as_they_are() -> None:
    mine = CommitConflict("mine")
    with pytest.raises(CommitConflict) as error, translated("anything"):
        raise mine
    assert error.value is mine


WORDS = "tidegate: column ''id'' holds a value that is not a valid decimal(18,4) [tidegate]"
STATEMENT = f"CASE WHEN a THEN b ELSE json_extract('[]', '{WORDS}' || substr"
PLAIN = WORDS.replace("''", "'")


@pytest.mark.parametrize(
    "bad",
    [
        f"bad JSON path: '{WORDS}'",
        f"[SQLITE_ERROR] SQL error or missing database (bad JSON path: '{WORDS}')",
        f'ERROR: invalid input syntax for type numeric: "{PLAIN}"',
        f"(conn=5) DOUBLE value is out of range in 'exp(octet_length('{WORDS}') * 1000 + (`id` is null))'",
        f"Invalid Input Error: {PLAIN}\n\nLINE 1: SELECT",
        f"[USER_RAISED_EXCEPTION] {PLAIN} SQLSTATE: P0001",
    ],
)
def test_a_bad_value_is_told_without_the_statement_around_it(bad: str) -> None:
    for text in (bad, f"{STATEMENT}\n{bad}", f"{STATEMENT} {bad}"):
        found = translate(RuntimeError(text), "writing to lake.a.b")
        assert type(found) is SchemaRefused
        assert found.message == "column 'id' holds a value that is not a valid decimal(18,4)"


def test_a_statement_that_only_speaks_of_a_bad_value_is_none() -> None:
    assert type(translate(RuntimeError(f"[PARSE_SYNTAX_ERROR] {STATEMENT}"), "writing to lake.a.b")) is WriteError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("java.nio.file.AccessDeniedException: s3a://b/t: getFileStatus on s3a://b/t", "denied access"),
        ("S3Exception: null (Service: S3, Status Code: 403, Request ID: 1)", "denied access"),
        ("S3Exception: The request signature is wrong (SignatureDoesNotMatch)", "denied access"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "has no file system of that kind"),
        ("java.nio.file.AccessDeniedException: /w", "the warehouse file:///w cannot be written"),
    ],
)
def test_a_store_that_refuses_is_no_disk_that_is_full(text: str, said: str) -> None:
    found = translate(RuntimeError(text), "writing to lake.a.b", "file:///w")
    assert type(found) is WriteError
    assert said in found.message


@pytest.mark.parametrize("name", ["Py4JError", "Py4JJavaError", "Py4JNetworkError", "ConnectionRefusedError"])
def test_a_jvm_that_died_is_told_as_such(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)  # another test of this process may have one at work
    kind = type(name, (Exception,), {})
    found = translate(kind("Answer from Java side is empty"), "writing to lake.a.b")
    assert type(found) is SparkLost
    assert found.message.startswith("Spark's process ended while")
    assert "spark.driver.memory" in found.hint


def test_a_jvm_that_ended_for_its_memory_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = type("Py4JNetworkError", (Exception,), {})("Answer from Java side is empty")
    for code, kind in ((3, OutOfMemory), (1, SparkLost)):
        with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) as ended:
            monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))
            found = translate(broken, "writing to lake.a.b")
        assert type(found) is kind
        assert "spark.driver.memory" in found.hint


def test_a_jvm_that_lives_is_not_told_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j raises the same of a call that Java refuses."""
    refused = type("Py4JError", (Exception,), {})("An error occurred while calling o1.foo")
    with socket.create_server(("127.0.0.1", 0)) as jvm:
        address, port = jvm.getsockname()
        gateway = SimpleNamespace(gateway_parameters=SimpleNamespace(address=address, port=port))
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        assert type(translate(refused, "writing to lake.a.b")) is WriteError
        broken = type("Py4JNetworkError", (Exception,), {})("Answer from Java side is empty")
        assert type(translate(broken, "writing to lake.a.b")) is SparkLost
    assert type(translate(refused, "writing to lake.a.b")) is SparkLost


def test_a_driver_that_spark_lacks_is_named_with_its_jar():
    with pytest.raises(EnvironmentMissing) as caught, needing(DRIVER, ["org.duckdb:duckdb_jdbc:2"], "shop"):
        raise RuntimeError("o12.jdbc: java.lang.ClassNotFoundException: org.duckdb.DuckDBDriver")
    assert "org.duckdb.DuckDBDriver" in str(caught.value)
    assert "spark.jars.packages=org.duckdb:duckdb_jdbc:2" in caught.value.hint
    with pytest.raises(RuntimeError, match="another"), needing(DRIVER, [], "shop"):
        raise RuntimeError("another")
    with (
        pytest.raises(SourceUnavailable, match="connection 'shop': Spark's driver cannot reach"),
        needing(DRIVER, [], "shop"),
    ):
        raise RuntimeError("o12.jdbc: java.sql.SQLNonTransientConnectionException: Socket fail to connect")
    with pytest.raises(RuntimeError, match="refused"), needing(DRIVER, [], "shop"):
        raise RuntimeError("refused: java.sql.SQLSyntaxErrorException")


def test_a_column_that_takes_no_null_is_named() -> None:
    said = "[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field: \nname\nIf the schema is inferred"
    delta = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: name.\n\n"
    for text in (said, f"Job aborted due to stage failure: {said}", said.replace("\n", ""), delta):
        found = translate(RuntimeError(text), "writing to lake.a.b")
        assert isinstance(found, SchemaRefused)
        assert found.message.startswith("column 'name' of the table takes no NULL")


@pytest.mark.parametrize(
    "said",
    [
        "java.nio.file.FileSystemException: /w/n/t/data/m=1/the%20city={}: File name too long",
        "java.io.IOException: Mkdirs failed to create file:/w/n/t/m=1/the%20city={} (exists=false, cwd=file:/x)",
        "java.io.IOException: Mkdirs failed to create file:/w/n/t/the%20city={}/x=1/a.parquet",
    ],
)
def test_a_value_that_is_no_name_of_a_folder_is_named_by_its_column(said: str) -> None:
    for value in ("%E5%8C%97" * 29, "b" * 250, "\u5317" * 82):
        found = translate(RuntimeError(said.format(value)), "writing to lake.a.b", "file:///w")
        assert isinstance(found, SchemaRefused)
        assert found.message.startswith("the table is partitioned by 'the city', and a value of it is too long")
        assert value[:9] not in found.message + found.hint
    short = translate(RuntimeError(said.format("b" * 20)), "writing to lake.a.b", "file:///w")
    assert not isinstance(short, SchemaRefused)


@pytest.mark.parametrize(
    "said",
    [
        'PSQLException: FATAL: too many connections for role "loader"',
        "PSQLException: FATAL: sorry, too many clients already",
        "SQLNonTransientConnectionException: User 'loader' has exceeded the 'max_user_connections' resource",
    ],
)
def test_a_server_that_takes_no_more_connections_is_reached(said: str) -> None:
    with pytest.raises(SourceUnavailable, match="'shop' was asked for columns") as caught, needing(DRIVER, [], "shop"):
        raise RuntimeError(f"o12.jdbc: {said}")
    for error in (caught.value, translate(RuntimeError(f"Job aborted due to stage failure: {said}"), "reading")):
        assert isinstance(error, SourceUnavailable)
        assert "takes no more connections" in error.message
        assert "CONNECTION LIMIT" in error.hint


def test_a_store_that_cannot_be_reached_is_named() -> None:
    text = "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connect to x"
    assert "an object store cannot be reached while opening" in translate(RuntimeError(text), "opening t").message
    rest = f"org.apache.iceberg.exceptions.RESTException: Error occurred\nCaused by: HttpHostConnectException: {text}"
    assert "catalog cannot be reached" in translate(RuntimeError(rest), "opening t").message
