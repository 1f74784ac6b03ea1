"""The locations of landed files and of tables: they must not overlap, and Spark must read their
paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sluice.config.yaml_file import refused
from sluice.environment import ENV_S3_ENDPOINT
from sluice.errors import ConfigError
from sluice.globs import Glob, is_hidden
from sluice.names import BATCH_FILES, LEDGER_NAMESPACE, changelog_namespace

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline
    from sluice.config.project_file import LakeConfig
    from sluice.config.yaml_file import Document, KeyPath

LANDING: Final = ("landing", "url")
WAREHOUSE: Final = ("lake", "warehouse")
S3_SCHEME: Final = "s3://"
# Characters that make Spark read a path as a glob; there is no way to escape them.
_GLOBS: Final = "[ ] { } * ? \\"


def resolved(root: Path, location: str) -> str:
    """Return a configured folder as an absolute path with links followed, or a bucket's prefix."""
    if location.startswith(S3_SCHEME):
        return location.rstrip("/")
    return str((root / Path(location).expanduser()).resolve())


def s3_endpoint() -> str | None:
    """Return the S3 server in `SLUICE_S3_ENDPOINT`; None for Amazon's.

    Raises ConfigError for an address that S3 clients would each reject differently.
    """
    endpoint = os.environ.get(ENV_S3_ENDPOINT)
    if endpoint and not _is_server(endpoint):
        raise ConfigError(f"{ENV_S3_ENDPOINT}: expected http(s)://host[:port]")
    return endpoint or None


def _is_server(address: str) -> bool:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    alone = not set("@?#") & set(address)  # what else it tells may be a secret
    return alone and parts.scheme in ("http", "https") and bool(parts.hostname)


def refuse_globs(document: Document, key: KeyPath, location: str) -> None:
    """Raise ConfigError for a resolved location that Spark would read as a glob."""
    if set(_GLOBS.split()) & set(location):
        raise refused(
            document,
            key,
            f"a path without {_GLOBS} (the project's own folder is part of it), for Spark takes "
            f"such a path for a pattern and finds nothing, got {location!r}",
        )


def refuse_landing(
    document: Document, pipeline: Pipeline, lake: LakeConfig, project_file: Path
) -> None:
    """Raise ConfigError if the landing pattern matches files of the tables, catalog or project.

    `pipeline.landing.url` and the locations in `lake` must be resolved.
    """
    landing, pattern = pipeline.landing.url, Glob(pipeline.landing.pattern)
    refuse_globs(document, LANDING, landing)
    if _is_in_tables(landing, lake.warehouse, pipeline.namespace):
        raise refused(
            document, LANDING, f"a place that is not among the tables' own files, got {landing!r}"
        )
    tables = [f"{lake.warehouse}/{file}" for file in _of_tables(pipeline.namespace)]
    catalog = [str(lake.catalog.sqlite_path)] if lake.catalog.is_sqlite else []
    for own in (*tables, str(project_file), *catalog):
        key = _below(landing, own)
        if key and pattern.matches(key) and not is_hidden(key):
            where = f"the warehouse {lake.warehouse!r}" if own in tables else repr(own)
            raise refused(
                document, LANDING,
                f"a place with files of events only, since the files in {where} would be landed, "
                f"got {landing!r} with the pattern {pipeline.landing.pattern!r}",
            )  # fmt: skip


def _of_tables(namespace: str) -> Iterator[str]:
    """Patterns of the files of tables, below the warehouse."""
    for name in (namespace, changelog_namespace(namespace), LEDGER_NAMESPACE):
        for file in ("data/0-0-a.parquet", "metadata/0-a.metadata.json", "metadata/0-a.avro"):
            yield f"{name}/{name}/{file}"


def _is_in_tables(landing: str, warehouse: str, namespace: str) -> bool:
    names = (namespace, changelog_namespace(namespace), LEDGER_NAMESPACE, BATCH_FILES)
    first, _, _ = (_below(warehouse, landing) or "").partition("/")
    return first in names


def _below(outer: str, inner: str) -> str | None:
    """Return the key of `inner` in `outer`; None if it is not inside."""
    around, parts = _parts(outer), _parts(inner)
    return "/".join(parts[len(around) :]) if parts[: len(around)] == around else None


def _parts(location: str) -> tuple[str, ...]:
    if not location.startswith(S3_SCHEME):
        return Path(location).parts
    bucket, _, prefix = location.removeprefix(S3_SCHEME).partition("/")
    return (S3_SCHEME, bucket, *filter(None, prefix.split("/")))
