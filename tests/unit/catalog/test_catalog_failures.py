"""What an error of a catalog, a store or a disk means: whether to try again, and where to look."""

from __future__ import annotations

import errno
from gzip import BadGzipFile

import pytest
from pyarrow import ArrowInvalid
from pyarrow.lib import ArrowMemoryError

from sluice.catalog.failures import EXPECTED, as_sluice_error, is_of_content, is_permanent
from sluice.errors import TerminalError, TransientError

# What pyarrow 26 says of a store, by what this did: behind a proxy that answered for the server of
# tests/s3_server.py, and of files that were damaged there.
HEAD = "When reading information for key 'a.parquet' in bucket 'w': AWS Error"
PAGE = "Could not open Parquet input source '<Buffer>': AWS Error"
WRITE = "When initiating multiple part upload for key 'b' in bucket 'w': AWS Error"
PASSING = {
    "reset": f"{PAGE} NETWORK_CONNECTION during GetObject operation: curlCode: 56, Failure when "
    "receiving data from the peer; Details: Recv failure: Connection reset by peer",
    "no answer": f"{HEAD} NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout "
    "was reached; Details: Operation too slow. Less than 1 bytes/sec transferred",
    "no server": f"{HEAD} NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could not "
    "connect to server; Details: Failed to connect to 127.0.0.1:1 after 0 ms",
    "not HTTP": f"{HEAD} NETWORK_CONNECTION during HeadObject operation: curlCode: 1, Unsupported "
    "protocol; Details: Received HTTP/0.9 when not allowed",
    "half of the body": f"{PAGE} NETWORK_CONNECTION during GetObject operation: curlCode: 18, "
    "Transferred a partial file; Details: end of response with 1 bytes missing",
    "503 SlowDown": "AWS Error SLOW_DOWN during GetObject operation: Reduce your request rate.",
    "503 in a page": f"{PAGE} SERVICE_UNAVAILABLE during GetObject operation: ",
    "503 without body": f"{HEAD} UNKNOWN (HTTP status 503) during HeadObject operation: No "
    "response body.",
    "500": f"{PAGE} INTERNAL_FAILURE during GetObject operation: m",
    "502": f"{PAGE} UNKNOWN (HTTP status 502) during GetObject operation: ",
    "504": f"{PAGE} REQUEST_TIMEOUT during GetObject operation: ",
    "429": f"{WRITE} UNKNOWN (HTTP status 429) during CreateMultipartUpload operation: No response "
    "body.",
    "half of an answer in XML": f"{WRITE} UNKNOWN (HTTP status -1) during CreateMultipartUpload "
    "operation: XML_ERROR_PARSING_ELEMENT",
    "404 of an object that was there": f"{PAGE} NO_SUCH_KEY during GetObject operation: m",
    # The next process may be given another token.
    "expired token": "AWS Error UNKNOWN (HTTP status 400) during GetObject operation: Unable to "
    "parse ExceptionName: ExpiredToken Message: m",
    # A HEAD has no body to say which; reading a file begins with one.
    "expired token of a HEAD": f"{HEAD} UNKNOWN (HTTP status 400) during HeadObject operation: No "
    "response body.",
}  # fmt: skip
REFUSED = {
    "403": f"{PAGE} ACCESS_DENIED during GetObject operation: Access Denied",
    "403 without body": f"{HEAD} ACCESS_DENIED during HeadObject operation: No response body.",
    "signature": f"{PAGE} SIGNATURE_DOES_NOT_MATCH during GetObject operation: m",
    "key": f"{WRITE} INVALID_ACCESS_KEY_ID during CreateMultipartUpload operation: m",
    "token": f"{WRITE} UNKNOWN (HTTP status 400) during CreateMultipartUpload operation: Unable to "
    "parse ExceptionName: InvalidToken Message: m",
    "clock": "AWS Error REQUEST_TIME_TOO_SKEWED during GetObject operation: m",
    "region": f"{HEAD} UNKNOWN (HTTP status 301) during HeadObject operation: No response body.",
    "bucket": f"{WRITE} NO_SUCH_BUCKET during CreateMultipartUpload operation: The specified "
    "bucket does not exist.",
}  # fmt: skip
DAMAGED = {
    "page": "Couldn't deserialize thrift: TProtocolException: Invalid data\nDeserializing page "
    "header failed.\n",
    "footer": "Could not open Parquet input source '<Buffer>': Couldn't deserialize thrift: "
    "TProtocolException: Invalid data",
    "Arrow's schema": "Invalid flatbuffers message.",
    "a folder": "Cannot open for reading: path '/w/a.metadata.json' is a directory",
}


@pytest.mark.parametrize("text", PASSING.values(), ids=PASSING)
def test_a_store_that_may_come_back(text: str) -> None:
    error = OSError(text)
    assert (is_permanent(error), is_of_content(error)) == (False, False)
    assert type(as_sluice_error(error)) is TransientError


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_store_that_refuses_is_explained_with_the_variables_that_have_its_keys(text: str) -> None:
    error = OSError(text)
    assert (is_permanent(error), is_of_content(error)) == (True, False)
    advice = r"; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, .*SLUICE_S3_ENDPOINT.*, and the"
    with pytest.raises(TerminalError, match=advice):
        raise as_sluice_error(error)


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_damaged_at_the_next_try_too(text: str) -> None:
    error = OSError(text)
    assert is_of_content(error)
    with pytest.raises(TerminalError, match=r"; a file is damaged: put it back from a backup"):
        raise as_sluice_error(error)


def test_other_bytes_than_the_store_took_are_damage_or_were_damaged_on_their_way() -> None:
    """A store that keeps checksums sends that of a file damaged on its disk."""
    error = OSError(f"{PAGE} VALIDATION during GetObject operation: Response checksums mismatch")
    assert (is_permanent(error), is_of_content(error)) == (False, True)
    assert type(as_sluice_error(error)) is TransientError


@pytest.mark.parametrize("error", [MemoryError(), ArrowMemoryError("malloc of size 9 failed")])
def test_a_process_without_memory_may_have_it_at_the_next_try(error: Exception) -> None:
    assert isinstance(error, EXPECTED)
    assert not is_permanent(error)
    known = as_sluice_error(error)
    assert type(known) is TransientError
    assert str(known).startswith(type(error).__name__)
    assert ": ;" not in str(known)
    assert str(known).endswith("; give this process more memory and try again")


@pytest.mark.parametrize(
    ("error", "of_content"),
    [
        (ArrowInvalid("Parquet magic bytes not found in footer"), True),
        (BadGzipFile("CRC check failed"), True),
        (EOFError("EOF: read 1 bytes"), True),
        (SystemError("Negative size passed to PyBytes_FromStringAndSize"), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), True),
        (KeyError("items"), True),
        (MemoryError(), False),
        (ArrowMemoryError("malloc of size 1099511627776 failed"), False),
        (OSError(errno.EIO, "Input/output error"), False),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), False),
        (TransientError("away"), False),
        (RuntimeError("can't start new thread"), False),
    ],
    ids=lambda case: type(case).__name__,
)
def test_readers_raise_of_a_damaged_file_whatever_they_stumble_over(
    error: Exception, of_content: bool
) -> None:
    assert is_of_content(error) is of_content
