"""A real S3 server for the tests: versitygw on a folder, one process a context.

versitygw was chosen because it is one maintained binary that the Go client builds at a pinned
version, checked against Go's checksum database, in half a minute, and because it keeps objects as
plain files, so a test can look at what was written. Mocks of S3 agree with boto3 and nothing else;
here boto3, Spark's s3a and pyarrow all talk to the same server.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import free_port

BINARY = Path(__file__).resolve().parent.parent / ".tools" / "bin" / "versitygw"
REGION = "us-east-1"
SECONDS_TO_START = 30


class S3ServerMissingError(RuntimeError):
    """The server's binary is not there; the message says how to get it."""


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    access_key: str
    secret_key: str
    region: str = REGION

    @property
    def environment(self) -> dict[str, str]:
        """What Sluice, boto3 and Spark read to reach this server."""
        return {
            "SLUICE_S3_ENDPOINT": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }


def find_binary() -> Path:
    """The server that `make setup-tests` built, or one on PATH."""
    if BINARY.is_file():
        return BINARY
    if found := shutil.which("versitygw"):
        return Path(found)
    raise S3ServerMissingError(
        "no S3 server: run `make setup-tests`, which builds versitygw with Go"
    )


@contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    """Serve the folders under `root` as buckets until the block ends."""
    binary = find_binary()
    objects, metadata, versions = (root / name for name in ("objects", "metadata", "versions"))
    for folder in (objects, metadata, versions):
        folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    server = S3Server(f"http://127.0.0.1:{port}", "sluice-test", secrets.token_hex(16))
    log = root / "server.log"
    # A sidecar folder holds what S3 keeps beside the bytes: not every file system of a CI machine
    # has extended attributes, the default.
    command = [str(binary), "--port", f"127.0.0.1:{port}", "--health", "/healthz", "posix"]
    command += ["--sidecar", str(metadata), "--versioning-dir", str(versions), str(objects)]
    credentials = {"ROOT_ACCESS_KEY": server.access_key, "ROOT_SECRET_KEY": server.secret_key}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | credentials
        )
    try:
        _wait_until_healthy(process, server, log)
        yield server
    finally:
        _stop(process)


def _wait_until_healthy(process: subprocess.Popen[bytes], server: S3Server, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with direct.open(f"{server.endpoint}/healthz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    output = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"the S3 server did not start (exit code {process.poll()}):\n{output}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
