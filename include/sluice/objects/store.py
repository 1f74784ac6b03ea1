"""Folders and buckets behind one small interface: list, open, put once.

Keys are relative to the store's URL, with `/` between their parts. Names that begin with `_` or `.`
are ignored unless asked for, as Spark does: they are unfinished files of other writers.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, BinaryIO, Final, Protocol

from sluice.config.locations import S3_SCHEME
from sluice.errors import (
    FileDeniedError,
    SluiceError,
    TerminalError,
    TransientError,
    UnstableFileError,
)
from sluice.globs import Glob, is_hidden, literal_start

_DAY_AND_HOUR: Final = re.compile(r"(?:^|/)dt=(\d{4})-(\d\d)-(\d\d)/(?:hr|hour)=(\d\d?)(?=/|$)")
_HOUR: Final = "%Y%m%dT%H"
# A disk may report a time whose year does not have four digits, or that Python cannot represent.
_EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC).timestamp()
_LATEST: Final = datetime(9999, 12, 31, 23, tzinfo=UTC).timestamp()
_TEMPORARY: Final = ".put-"
FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
# The machine has run out of a resource, whichever file is opened.
_OUT_OF: Final = FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@dataclass(frozen=True)
class StoredObject:
    """One object as listed."""

    key: str
    size: int
    etag: str
    version_id: str
    modified: datetime

    @property
    def hour(self) -> str:
        """`20260301T05`: from `dt=2026-03-01/hr=05` in the key, else the last change in UTC."""
        return _hour_in(self.key) or self.modified.astimezone(UTC).strftime(_HOUR)


def _hour_in(key: str) -> str:
    match = _DAY_AND_HOUR.search(key)
    if not match:
        return ""
    year, *rest = (int(part) for part in match.groups())
    try:
        # The C library writes a year before 1000 in fewer digits than it reads.
        return f"{year:04d}" + datetime(year, *rest).strftime(_HOUR.removeprefix("%Y"))  # type: ignore[arg-type]
    except ValueError:
        return ""


class Identity(Protocol):
    """What distinguishes an object from another one under the same key."""

    @property
    def size(self) -> int: ...

    @property
    def etag(self) -> str: ...

    @property
    def version_id(self) -> str: ...


def is_same_object(one: Identity, other: Identity) -> bool:
    """Whether size, ETag and version are the same.

    A version that is unknown on one side is not compared: the right to read it may have been
    granted or revoked since.
    """
    versions = {one.version_id, other.version_id} - {""}
    return (one.size, one.etag) == (other.size, other.etag) and len(versions) < 2


class ObjectStore(Protocol):
    """The operations that Sluice needs on a folder or a bucket."""

    def list(self, pattern: str = "**/*", *, hidden: bool = False) -> Iterator[StoredObject]:
        """List the objects whose key matches a glob; `**/` also matches no folder at all.

        `hidden`: list those too whose names are ignored.
        """
        ...

    def describe(self, key: str) -> StoredObject:
        """Return an object as it is now; raises FileNotFoundError."""
        ...

    def open(self, key: str, etag: str = "") -> BinaryIO:
        """Open an object as a stream.

        Raises FileNotFoundError; FileDeniedError if this object alone may not be read;
        UnstableFileError if another object than the one with the listed `etag` is there now.
        """
        ...

    def get(self, key: str) -> bytes:
        """Read a whole object; raises as `open` does."""
        ...

    def put(self, key: str, content: bytes) -> None:
        """Write or overwrite an object; readers see all of it or none."""
        ...

    def put_stream(self, key: str, content: BinaryIO) -> None:
        """Write or overwrite an object from a stream that is too large for memory."""
        ...

    def put_if_absent(self, key: str, content: bytes) -> bool:
        """Write an object unless its key exists; returns whether it was written."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects with these keys; a key without an object is passed over.

        Raises an error for the first one found that cannot be deleted.
        """
        ...

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object whose key begins with `prefix`, hidden ones too."""
        ...

    def delete_unfinished(self, prefix: str, before: datetime) -> None:
        """Remove what writers that died left under the prefix, if begun before the given time."""
        ...

    def url(self, key: str) -> str:
        """Return the URL of an object for Spark."""
        ...


def written_again(key: str) -> UnstableFileError:
    """Return the error for an object that is no longer the listed one."""
    return UnstableFileError(
        f"{key} was written again since it was listed, or it is still being written; try again "
        "when it is complete"
    )


def open_store(url: str, region: str | None = None, *, versions: bool = False) -> ObjectStore:
    """Return the store of a folder, or of `s3://bucket/prefix`; `versions`: its objects have their
    versions, where the bucket keeps any, which takes the right to list these."""
    if url.startswith(S3_SCHEME):
        from sluice.objects.s3_store import S3Store  # boto3 takes a while to import

        bucket, _, prefix = url.removeprefix(S3_SCHEME).partition("/")
        return S3Store(bucket, prefix, region, versions=versions)
    return LocalStore(Path(url))


@contextmanager
def faults_of_the_store(key: str) -> Iterator[None]:
    """Turn an unexpected error of a store into TransientError: the file may be sound."""
    try:
        yield
    except (SluiceError, OSError, MemoryError):
        raise
    except Exception as error:
        raise TransientError(f"{key}: {type(error).__name__}: {error}; try again") from error


@contextmanager
def faults_of_an_object(key: str) -> Iterator[None]:
    """Turn errors of reading one object into TransientError: the other objects may be sound.

    Raises UnstableFileError if it is gone; errors of an exhausted resource (`_OUT_OF`) pass
    unchanged.
    """
    try:
        with faults_of_the_store(key):
            yield
    except FileNotFoundError as error:
        raise UnstableFileError(f"{key} is gone since it was listed; try again") from error
    except OSError as error:
        if error.errno in _OUT_OF:
            raise
        raise TransientError(f"{key}: {error.strerror or error}; try again") from error


class LocalStore:
    """A folder; its objects are the regular files in it, without links that lead out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def list(self, pattern: str = "**/*", *, hidden: bool = False) -> Iterator[StoredObject]:
        """See `ObjectStore`; a missing folder is empty, and files that vanish meanwhile
        are left out. Folders that no key that matches leads through are not read."""
        wanted, start = Glob(pattern), literal_start(pattern)
        for parent, folders, names in os.walk(self.folder, onerror=_raise_unless_gone):
            inside = _folder_key(Path(parent).relative_to(self.folder))
            folders[:] = sorted(
                name
                for name in folders
                if (hidden or not is_hidden(name)) and _may_lead_to(start, f"{inside}{name}/")
            )
            for name in sorted(names):
                if (hidden or not is_hidden(name)) and wanted.matches(inside + name):
                    yield from self._described(inside + name, Path(parent, name))

    def _described(self, key: str, path: Path) -> Iterator[StoredObject]:
        """Yield the object at a path, if it is one and still there."""
        with suppress(FileNotFoundError):
            if self._is_inside(path):
                yield _describe(key, path)

    def _is_inside(self, path: Path) -> bool:
        if not path.is_symlink():
            return path.is_file()
        return path.is_file() and path.resolve().is_relative_to(self.folder)

    def _path(self, key: str) -> Path:
        path = self.folder / key
        if not path.resolve().is_relative_to(self.folder):
            raise TerminalError(f"{key!r} leads out of {self.folder}")
        return path

    def describe(self, key: str) -> StoredObject:
        """See `ObjectStore`."""
        return _describe(key, self._path(key))

    def open(self, key: str, etag: str = "") -> BinaryIO:
        """See `ObjectStore`."""
        path = self._path(key)
        try:
            stream = path.open("rb")
        except PermissionError as error:
            raise FileDeniedError(f"{path}: {error.strerror}; let Sluice read it") from error
        if etag and _etag(os.fstat(stream.fileno())) != etag:
            stream.close()
            raise written_again(key)
        return stream

    def get(self, key: str) -> bytes:
        """See `ObjectStore`."""
        with self.open(key) as stream:
            return stream.read()

    def put(self, key: str, content: bytes) -> None:
        """See `ObjectStore`."""
        self.put_stream(key, BytesIO(content))

    def put_stream(self, key: str, content: BinaryIO) -> None:
        """See `ObjectStore`."""
        path = self._path(key)
        os.replace(_temporary(path, content), path)

    def put_if_absent(self, key: str, content: bytes) -> bool:
        """See `ObjectStore`; a hard link is only created if there is no file yet."""
        path = self._path(key)
        temporary = _temporary(path, BytesIO(content))
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore`."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        """See `ObjectStore`."""
        path = self._path(prefix)
        if prefix.endswith("/"):
            shutil.rmtree(path, ignore_errors=True)
            return
        for one in path.parent.glob(f"{path.name}*"):
            shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)

    def delete_unfinished(self, prefix: str, before: datetime) -> None:
        """See `ObjectStore`; removes temporary files. Those of others vanish meanwhile."""
        begun = LocalStore(self._path(prefix))
        for found in begun.list(f"**/{_TEMPORARY}*", hidden=True):
            if found.modified < before:
                (begun.folder / found.key).unlink(missing_ok=True)

    def url(self, key: str) -> str:
        """See `ObjectStore`; not percent-encoded, since Hadoop's paths are not."""
        return f"file://{self._path(key)}"


def _folder_key(folder: Path) -> str:
    """Return what the keys in a folder of the store begin with."""
    return f"{folder.as_posix()}/" if folder.parts else ""


def _may_lead_to(start: str, folder: str) -> bool:
    """Whether keys with this start may be in a folder or below it."""
    return folder.startswith(start) or start.startswith(folder)


def _raise_unless_gone(error: OSError) -> None:
    """Raise the error for a folder that cannot be read, since it must not count as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _temporary(path: Path, content: BinaryIO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_TEMPORARY, delete=False) as file:
        temporary = Path(file.name)
        try:
            _fill(file.file, content)
        except BaseException:  # else a full disk stays full
            temporary.unlink(missing_ok=True)
            raise
    return temporary


def _fill(file: IO[bytes], content: BinaryIO) -> None:
    shutil.copyfileobj(content, file)
    file.flush()
    os.fsync(file.fileno())
    os.fchmod(file.fileno(), 0o644)


def _describe(key: str, path: Path) -> StoredObject:
    status = path.stat()
    modified = datetime.fromtimestamp(min(max(status.st_mtime, _EARLIEST), _LATEST), tz=UTC)
    return StoredObject(key, status.st_size, _etag(status), "", modified)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"
