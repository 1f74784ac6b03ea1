"""Which errors of a driver are worth another try."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    OAuthError,
    ServiceUnavailableError,
)
from pyspark.errors import (
    AnalysisException,
    PySparkException,
    PySparkTypeError,
    UnsupportedOperationException,
)

from sluice.environment import ENV_SOURCE_PASSWORD
from sluice.errors import PlanError, TerminalError, TransientError
from spark_jobs import failures
from spark_jobs.failures import typed
from spark_jobs.verifying import source_database
from spark_jobs.verifying.source_database import refusal
from tests.unit.outages import away


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("coupon"), TerminalError),
        (AssertionError("no"), TerminalError),
        (AnalysisException("no such column"), TerminalError),
        (AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/copy"), TransientError),
        (PySparkTypeError("not a column"), TerminalError),
        (UnsupportedOperationException("no such type"), TerminalError),
        (PySparkException("job aborted"), TransientError),
        (ConnectionResetError("reset"), TransientError),
        (CommitFailedException("moved"), TransientError),
        (ServiceUnavailableError("503"), TransientError),
        (MemoryError("malloc of size 9 failed"), TransientError),
        (PermissionError("denied"), TerminalError),
        (OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"), TerminalError),
        (ForbiddenError("403"), TerminalError),
        (OAuthError("invalid_client"), TerminalError),
        (away("password authentication failed"), TerminalError),
        (PlanError("no key"), PlanError),
    ],
)
def test_an_error_says_whether_to_try_again(error: Exception, kind: type[Exception]) -> None:
    assert type(typed(error)) is kind
    assert str(getattr(error, "orig", error)) in str(typed(error))


class Thrown:
    """An exception of the JVM."""

    def __init__(self, kind: str, message: str, state: str | None = None) -> None:
        self.kind, self.message, self.state = kind, message, state

    def getCause(self) -> None:
        return None

    def getMessage(self) -> str:
        return self.message

    def getSQLState(self) -> str | None:
        return self.state


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """What py4j makes of it, without a JVM to ask for the stack."""

    def __init__(self, thrown: Thrown) -> None:
        self.java_exception = thrown

    def __str__(self) -> str:
        thrown = self.java_exception
        return (
            f"An error occurred while calling o105.sql.\n: {thrown.kind}: {thrown.message}\n"
            "\tat org.example.Some.check(Some.java:49)\n"
            "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
            "\tSuppressed: org.example.Full: all of the stack\n\t\tat a.B.c(B.java:1)\n"
            "Caused by: java.io.IOException: no route\n\tat org.example.Any.$f$1(Any.scala:1)\n"
            "\t... 12 more\n"
        )


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_java(cause: Any, kind: str) -> bool:
        return str(cause.kind) == kind or (cause.state and kind == "java.sql.SQLException")

    for module in (failures, source_database):
        monkeypatch.setattr(module, "is_java", is_java)


def test_error_of_the_jvm_has_its_causes_and_no_stack_trace(jvm: None) -> None:
    error = typed(JavaError(Thrown("java.io.UncheckedIOException", "reset")))
    assert type(error) is TransientError
    assert str(error) == (
        "JavaError: java.io.UncheckedIOException: reset Caused by: java.io.IOException: no route"
    )


_OF_ICEBERG = "org.apache.iceberg.exceptions"


@pytest.mark.parametrize(
    ("kind", "message", "advised"),
    [
        ("java.lang.RuntimeException", "ParquetInputFile@1 is not a Parquet file. Expected", True),
        ("org.apache.parquet.io.ParquetDecodingException", "Failed to read 9 bytes", True),
        ("org.apache.avro.InvalidAvroMagicException", "Not an Avro data file", True),
        ("org.apache.hadoop.fs.ChecksumException", "Checksum error: file:/a.parquet at 0", True),
        (f"{_OF_ICEBERG}.RuntimeIOException", "Failed to fetch file: /a.parquet", True),
        (f"{_OF_ICEBERG}.RuntimeIOException", "Failed to open Parquet file: /a.parquet", True),
        (f"{_OF_ICEBERG}.NotFoundException", "Failed to open input stream for file: /a", True),
        (f"{_OF_ICEBERG}.NotFoundException", "File does not exist: /a.parquet", True),
        (f"{_OF_ICEBERG}.NotFoundException", "Location does not exist: s3://b/a", True),
        ("java.io.UncheckedIOException", "reset", False),
        (
            "SparkException",
            "[FAILED_READ_FILE.NO_HINT] s3a://l/x is not a Parquet file",
            False,
        ),
    ],
)
def test_a_file_of_a_table_that_spark_cannot_read_leads_to_the_page(
    jvm: None, kind: str, message: str, advised: bool
) -> None:
    """Words of Iceberg's readers; a landed file is read by Spark's own."""
    error = typed(JavaError(Thrown(kind, message)))
    assert type(error) is TransientError
    assert ("A damaged file of a table" in str(error)) is advised


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Invalid source type string for transform: day", TerminalError),
        ("Cannot add identifier field a: not a required field", TerminalError),
        ("Found conflicting files that can contain records matching true: [a]", TransientError),
        ("Cannot commit, missing data files: [a]", TransientError),
    ],
)
def test_refusals_of_iceberg_are_lasting_except_a_lost_race(
    jvm: None, message: str, kind: type[Exception]
) -> None:
    thrown = Thrown("org.apache.iceberg.exceptions.ValidationException", message)
    assert type(typed(JavaError(thrown))) is kind


@pytest.mark.parametrize(
    ("state", "password", "refused"),
    [
        ("28P01", "wrong", True), ("28000", "", True), ("3D000", "right", True),
        ("42501", "right", True), ("08004", "", True), ("08004", "right", False),
        ("08001", "", False), ("57P03", "right", False),
    ],
)  # fmt: skip
def test_refusal_of_the_source_is_one_line(
    jvm: None, monkeypatch: pytest.MonkeyPatch, state: str, password: str, refused: bool
) -> None:
    monkeypatch.setenv(ENV_SOURCE_PASSWORD, password)
    thrown = Thrown("org.postgresql.util.PSQLException", "FATAL: no\n  Position: 7", state)
    message = refusal(JavaError(thrown))
    assert (message is not None) == refused
    if message is not None:
        assert str(message) == (
            f"the source refuses (SQLSTATE {state}): FATAL: no. User and password are those of "
            "SLUICE_SOURCE_USER and SLUICE_SOURCE_PASSWORD, the database that of --source"
        )
