"""Objects in an S3 bucket, on boto3."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from io import RawIOBase
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ValidationError,
)

from sluice.config.locations import s3_endpoint
from sluice.counting import counted
from sluice.errors import FileDeniedError, SluiceError, TerminalError, TransientError
from sluice.globs import Glob, is_hidden, literal_start
from sluice.objects.store import StoredObject, written_again

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectRequestTypeDef

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
ATTEMPTS: Final = 6
CONNECTIONS: Final = 16
DELETED_AT_ONCE: Final = 1000

_ABSENT: Final = ("404", "NoSuchKey", "NotFound")
# The object with this key does not meet the condition of the request.
_ANOTHER: Final = ("412", "PreconditionFailed")
# S3's answer while a delete or another write of the key is under way: the request is to be sent
# again (API reference of PutObject, If-None-Match), which botocore does not do.
_CONFLICT: Final = "ConditionalRequestConflict"
_CONFLICT_SECONDS: Final = 0.2
_DENIED: Final = ("401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_WRONG: Final = (
    "NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed",
    "InvalidToken", "RequestTimeTooSkewed",
)  # fmt: skip
# Raised by the client before any request.
_WRONG_SETTINGS: Final = (
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ValidationError,
)
_KEY_ADVICE: Final = "its key cannot be used: mend that, or have it written again"
_OF_ONE_OBJECT: Final = {
    "AccessDenied": "give Sluice the right to read it (s3:GetObject, and kms:Decrypt of its key)",
    "InvalidObjectState": "it is archived: restore it",
    # S3's answer for an object whose writer keeps the key (SSE-C).
    "InvalidRequest": "Sluice cannot ask for it as it is stored: have it written again",
    "KMS.DisabledException": _KEY_ADVICE,
    "KMS.InvalidKeyUsageException": _KEY_ADVICE,
    "KMS.KMSInvalidStateException": _KEY_ADVICE,
    "KMS.NotFoundException": _KEY_ADVICE,
}
_VERSIONED: Final = ("Enabled", "Suspended")


class S3Store:
    """A prefix of a bucket; `SLUICE_S3_ENDPOINT` names a server other than Amazon's."""

    def __init__(
        self, bucket: str, prefix: str, region: str | None = None, *, versions: bool = False
    ) -> None:
        self.bucket = bucket
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.region = region
        self.versions = versions

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use; threads may share it."""
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        )
        session = boto3.session.Session(region_name=self.region)
        return session.client("s3", endpoint_url=s3_endpoint(), config=config)

    def list(self, pattern: str = "**/*", *, hidden: bool = False) -> Iterator[StoredObject]:
        """See `ObjectStore`; of a bucket with versions the newest one of each object."""
        wanted = Glob(pattern)
        start = self.prefix + literal_start(pattern)
        with self._explained(start):
            objects = self._versions(start) if self._is_versioned else self._objects(start)
            for one in objects:
                # A folder created by hand is an object too, as may be the prefix itself.
                is_folder = one.key == "" or one.key.endswith("/")
                is_listed = (hidden or not is_hidden(one.key)) and not is_folder
                if is_listed and wanted.matches(one.key):
                    yield one

    @cached_property
    def _is_versioned(self) -> bool:
        """Whether the bucket's versions are read; False if it may not be read that it has any."""
        if not self.versions:
            return False
        try:
            return self.client.get_bucket_versioning(Bucket=self.bucket).get("Status") in _VERSIONED
        except ClientError as error:
            if _code(error) in (*_DENIED, "NotImplemented"):
                return False
            raise

    def _objects(self, start: str) -> Iterator[StoredObject]:
        pages = self.client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=start):
            for item in page.get("Contents", []):
                yield self._stored(item["Key"], item["Size"], item["ETag"], item["LastModified"])

    def _versions(self, start: str) -> Iterator[StoredObject]:
        pages = self.client.get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self.bucket, Prefix=start):
            for item in page.get("Versions", []):
                if item["IsLatest"]:
                    yield self._stored(
                        item["Key"], item["Size"], item["ETag"], item["LastModified"],
                        item["VersionId"],
                    )  # fmt: skip

    def _stored(
        self, key: str, size: int, etag: str, modified: datetime, version: str = "null"
    ) -> StoredObject:
        return StoredObject(
            key.removeprefix(self.prefix),
            size,
            etag.strip('"'),
            "" if version == "null" else version,
            modified.astimezone(UTC),
        )

    def describe(self, key: str) -> StoredObject:
        """See `ObjectStore`."""
        with self._explained(key):
            answer = self.client.head_object(Bucket=self.bucket, Key=self.prefix + key)
            version = answer.get("VersionId", "null") if self._is_versioned else "null"
        return self._stored(
            self.prefix + key,
            answer["ContentLength"], answer["ETag"], answer["LastModified"], version,
        )  # fmt: skip

    def open(self, key: str, etag: str = "") -> BinaryIO:
        """See `ObjectStore`."""
        request: GetObjectRequestTypeDef = {"Bucket": self.bucket, "Key": self.prefix + key}
        if etag:
            request["IfMatch"] = f'"{etag}"'
        try:
            answer = self.client.get_object(**request)
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _ANOTHER:
                raise written_again(key) from error
            raise self._denial(key, error) or self._explanation(key, error) from error
        return cast(BinaryIO, _Body(self, key, answer["Body"]))

    def get(self, key: str) -> bytes:
        """See `ObjectStore`."""
        with self.open(key) as stream:
            return stream.read()

    def put(self, key: str, content: bytes) -> None:
        """See `ObjectStore`."""
        with self._explained(key):
            self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=content)

    def put_stream(self, key: str, content: BinaryIO) -> None:
        """See `ObjectStore`; in parts where it is large."""
        with self._explained(key):
            self.client.upload_fileobj(content, self.bucket, self.prefix + key)

    def put_if_absent(self, key: str, content: bytes) -> bool:
        """See `ObjectStore`; the server refuses a second object."""
        left = ATTEMPTS
        while True:
            try:
                self.client.put_object(
                    Bucket=self.bucket, Key=self.prefix + key, Body=content, IfNoneMatch="*"
                )
                return True
            except (ClientError, BotoCoreError) as error:
                left -= 1
                if _code(error) in _ANOTHER:
                    return False
                if _code(error) != _CONFLICT or left == 0:
                    raise self._explanation(key, error) from error
                time.sleep(_CONFLICT_SECONDS)

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore`; a request takes `DELETED_AT_ONCE` keys."""
        left = iter(keys)
        while some := list(islice(left, DELETED_AT_ONCE)):
            with self._explained(some[0]):
                self._delete(some)

    def delete_prefix(self, prefix: str) -> None:
        """See `ObjectStore`."""
        with self._explained(prefix):
            self.delete(one.key for one in self._objects(self.prefix + prefix))

    def _delete(self, keys: Sequence[str]) -> None:
        answer = self.client.delete_objects(
            Bucket=self.bucket,
            Delete={"Objects": [{"Key": self.prefix + key} for key in keys], "Quiet": True},
        )
        if left := answer.get("Errors"):
            first = left[0]
            raise TransientError(
                f"{len(left)} of {counted(len(keys), 'object')} not deleted, such as "
                f"s3://{self.bucket}/{first.get('Key')}: {first.get('Code')}: "
                f"{first.get('Message')}; try again"
            )

    def delete_unfinished(self, prefix: str, before: datetime) -> None:
        """See `ObjectStore`; removes the parts of incomplete uploads."""
        with self._explained(prefix):
            pages = self.client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for upload in page.get("Uploads", []):
                    if upload["Initiated"] < before:
                        self.client.abort_multipart_upload(
                            Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                        )

    def url(self, key: str) -> str:
        """See `ObjectStore`; `s3a` is Hadoop's client."""
        return f"s3a://{self.bucket}/{self.prefix}{key}"

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            raise self._explanation(key, error) from error

    def _denial(self, key: str, error: Exception) -> FileDeniedError | None:
        """Return the error for an object that alone cannot be read; None for any other error."""
        advice = _OF_ONE_OBJECT.get(_code(error))
        return FileDeniedError(f"{self._where(key)}: {error}; {advice}") if advice else None

    def _where(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{key.removeprefix(self.prefix)}"

    def _explanation(self, key: str, error: Exception) -> Exception:
        """Return the error to raise instead: FileNotFoundError, TransientError or TerminalError."""
        where = self._where(key)
        code = _code(error)
        if code in _ABSENT:
            return FileNotFoundError(where)
        wrong = code in (*_DENIED, *_WRONG) or isinstance(error, _WRONG_SETTINGS)
        kind: type[SluiceError] = TerminalError if wrong else TransientError
        advice = "; check the bucket's name, region and keys" if wrong else "; try again"
        return kind(f"{where}: {error}{advice}")


def _code(error: Exception) -> str:
    """Return the error code of the server's answer; '' without one."""
    return error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""


class _Body(RawIOBase):
    """The stream of an object's bytes; a broken connection raises TransientError."""

    def __init__(self, store: S3Store, key: str, body: StreamingBody) -> None:
        self._store = store
        self._key = key
        self._body = body

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        with self._store._explained(self._key):
            return self._body.read(None if size is None or size < 0 else size)

    def close(self) -> None:
        self._body.close()
        super().close()
