"""What a failure of Spark means, and what is never repeated of it."""

from __future__ import annotations

import pytest

from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    SchemaRefused,
    SourceError,
    SourceUnavailable,
    TidegateError,
    WriteError,
)
from tidegate.spark.failures import translate, translated


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


def test_the_condition_is_named_and_the_cause_kept() -> None:
    cause = RuntimeError("[ARITHMETIC_OVERFLOW] 99999 is too much")
    with pytest.raises(WriteError, match="ARITHMETIC_OVERFLOW") as error, translated("merging into x"):
        raise cause
    assert error.value.__cause__ is cause
    assert "99999" not in error.value.message


def test_our_own_errors_pass_as_they_are() -> None:
    mine = CommitConflict("mine")
    with pytest.raises(CommitConflict) as error, translated("anything"):
        raise mine
    assert error.value is mine


STATEMENT = (
    "CASE WHEN a THEN b ELSE json_extract('[]', 'tidegate: column ''id'' holds a value that is no INTEGER' || substr"
)


def test_a_bad_value_is_told_and_a_statement_that_only_speaks_of_one_is_not() -> None:
    bad = "bad JSON path: 'tidegate: column ''id'' holds a value that is no INTEGER'"
    for text in (bad, f"{STATEMENT}\n{bad}", f"{STATEMENT} {bad}"):
        found = translate(RuntimeError(text), "writing to lake.a.b")
        assert type(found) is SchemaRefused
        assert found.message.startswith("column 'id' holds a value that is no INTEGER")
    assert type(translate(RuntimeError(f"[PARSE_SYNTAX_ERROR] {STATEMENT}"), "writing to lake.a.b")) is WriteError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("java.nio.file.AccessDeniedException: s3a://b/t: getFileStatus on s3a://b/t", "refused the login"),
        ("S3Exception: null (Service: S3, Status Code: 403, Request ID: 1)", "refused the login"),
        ("S3Exception: The request signature is wrong (SignatureDoesNotMatch)", "refused the login"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "knows no file system of that kind"),
        ("java.nio.file.AccessDeniedException: /w", "the warehouse file:///w cannot be written"),
    ],
)
def test_a_store_that_refuses_is_no_disk_that_is_full(text: str, said: str) -> None:
    found = translate(RuntimeError(text), "writing to lake.a.b", "file:///w")
    assert type(found) is WriteError
    assert said in found.message


@pytest.mark.parametrize("name", ["Py4JError", "Py4JNetworkError", "ConnectionRefusedError"])
def test_a_jvm_that_died_is_told_as_such(name: str) -> None:
    kind = type(name, (Exception,), {})
    found = translate(kind("Answer from Java side is empty"), "writing to lake.a.b")
    assert type(found) is WriteError
    assert found.message.startswith("Spark's process ended while")
    assert "spark.driver.memory" in found.hint
