"""Where files arrive and where the tables are: apart from each other, by paths that Spark reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluice.config.yamlfile import dotted
from sluice.errors import ConfigError

if TYPE_CHECKING:
    from sluice.config.project import Lake
    from sluice.config.yamlfile import Document, KeyPath

LANDING: Final = ("landing", "url")
WAREHOUSE: Final = ("lake", "warehouse")
_S3: Final = "s3://"
# What makes Spark take a path for a pattern, with no way to say that it is none.
_GLOBS: Final = "[ ] { } * ? \\"


def resolved(root: Path, location: str) -> str:
    """A folder of the configuration as an absolute path, links followed; a bucket's prefix."""
    if location.startswith(_S3):
        return location.rstrip("/")
    return str((root / Path(location).expanduser()).resolve())


def refuse_globs(document: Document, key: KeyPath, location: str) -> None:
    """Raise ConfigError for a resolved location that Spark would take for a pattern."""
    if set(_GLOBS.split()) & set(location):
        raise _refused(
            document,
            key,
            f"a path without {_GLOBS} (the project's own folder is part of it), for Spark takes "
            f"such a path for a pattern and finds nothing, got {location!r}",
        )


def refuse_landing(document: Document, landing: str, lake: Lake, project_file: Path) -> None:
    """Raise ConfigError where Sluice's own files would be landed as files of events.

    `landing`: resolved, as all of `lake` is.
    """
    refuse_globs(document, LANDING, landing)
    if _is_in(landing, lake.warehouse) or _is_in(lake.warehouse, landing):
        raise _refused(
            document,
            LANDING,
            "a place neither in the warehouse nor around it, whose files would be landed, got "
            f"{landing!r} beside the warehouse {lake.warehouse!r}",
        )
    own = [project_file, *([lake.catalog.sqlite_path] if lake.catalog.is_sqlite else [])]
    for path in own:
        if _is_in(str(path), landing):
            raise _refused(
                document,
                LANDING,
                f"a folder of its own, for {str(path)!r} would be landed, got {landing!r}",
            )


def _is_in(inner: str, outer: str) -> bool:
    within = _parts(outer)
    return _parts(inner)[: len(within)] == within


def _parts(location: str) -> tuple[str, ...]:
    if not location.startswith(_S3):
        return Path(location).parts
    bucket, _, prefix = location.removeprefix(_S3).partition("/")
    return (_S3, bucket, *filter(None, prefix.split("/")))


def _refused(document: Document, key: KeyPath, expected: str) -> ConfigError:
    return ConfigError(f"{document.where(key)}: {dotted(key)}: expected {expected}")
