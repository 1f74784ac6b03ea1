"""The Iceberg catalog for pyiceberg; see `spark.py` for Spark.

Both use the same catalog name, the same database and the same spelling of the warehouse (an
absolute path, or s3://), so that each sees the other's tables.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, NoSuchTableError, RESTError
from pyiceberg.exceptions import ValidationError as MetadataError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from sqlalchemy import ExceptionContext, event, select
from sqlalchemy.exc import IntegrityError, ProgrammingError

from sluice.catalog.damage import is_of_ledger, ledger_damage
from sluice.catalog.failures import (
    Errors,
    error_text,
    is_of_a_store,
    is_of_content,
    is_switchover,
)
from sluice.catalog.retries import limited_retries, retry_while_away
from sluice.catalog.spark import (
    POSTGRES_ANSWER_SECONDS,
    POSTGRES_CONNECT_SECONDS,
    SQLITE_WAIT_SECONDS,
    rest_secrets,
    s3_region,
)
from sluice.config.locations import s3_endpoint
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig
from sluice.environment import ENV_CATALOG_URI, from_environment
from sluice.errors import LedgerDamagedError, TerminalError
from sluice.names import CATALOG, LEDGER_NAMESPACE, full_name

_OPEN_TRIES: Final = 9
_LONGEST_PAUSE: Final = 0.5
# How servers answer for a path or a warehouse that they do not have.
_UNKNOWN_THERE: Final = (400, 404, 405, 422)
_REST: Final = "sluice.catalog.rest.RetryingRestCatalog"
_S3_RETRIES: Final = "sluice.catalog.s3_retries.S3RetryStrategy"
_S3_SECRETS: Final = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}
_LIBPQ: Final = {
    "connect_timeout": POSTGRES_CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": POSTGRES_ANSWER_SECONDS * 1000,
}


class UnknownMetadataError(TerminalError):
    """A table's metadata is damaged or missing, or has something that pyiceberg does not know, such
    as a type."""


# Errors of one table, which say nothing of others: its metadata is unknown, damaged or gone, it was
# dropped since it was listed, or it may not be read.
UNREADABLE: Final[Errors] = (
    UnknownMetadataError, LedgerDamagedError, FileNotFoundError, NoSuchTableError, ForbiddenError,
)  # fmt: skip
# What pyiceberg raises over metadata that is no JSON, no text, no gzip, or has another structure.
_OF_METADATA: Final[Errors] = (
    MetadataError, ValueError, LookupError, AttributeError, TypeError, EOFError, zlib.error,
    OSError,
)  # fmt: skip


def open_catalog(project: Project) -> Catalog:
    """Open the catalog; creates a missing embedded one.

    Raises CatalogAwayError if it does not answer for `retries.SECONDS`, TerminalError if the
    server is not an Iceberg catalog, or has no such warehouse.
    """
    catalog = project.lake.catalog
    if catalog.is_sqlite:
        catalog.sqlite_path.parent.mkdir(parents=True, exist_ok=True)
    if not project.lake.on_s3:
        Path(project.lake.warehouse).mkdir(parents=True, exist_ok=True)
    properties = {"warehouse": project.lake.catalog_warehouse, **_s3_properties(project)}
    properties |= _pyiceberg_properties(catalog)
    try:
        return retry_while_away(partial(_load, properties))
    except ValidationError as error:
        raise TerminalError(
            f"what answers at {catalog.uri} is no Iceberg REST catalog; correct lake.catalog.uri, "
            f"or {ENV_CATALOG_URI} where that is set"
        ) from error
    except RESTError as error:
        if _status(error) not in _UNKNOWN_THERE:
            raise
        raise TerminalError(
            f"{catalog.address} has no catalog for warehouse {project.lake.catalog_warehouse!r} "
            f"({error_text(error)}); correct lake.catalog.uri, or {ENV_CATALOG_URI} where that is "
            "set, or lake.catalog.warehouse"
        ) from error


def _status(error: RESTError) -> int | None:
    """Return the status of the answer of which pyiceberg made an error."""
    return getattr(getattr(error.__cause__, "response", None), "status_code", None)


def load_table(catalog: Catalog, identifier: Identifier) -> Table:
    """Load a table as `load_once` does, also if the catalog is away for a while (see `retries`).

    Raises UnknownMetadataError too if the file of its metadata is missing and the ledger's is
    there. One of the ledger that is missing says nothing of a table: the lake may have moved.
    """
    try:
        return retry_while_away(partial(load_once, catalog, identifier))
    except FileNotFoundError as gone:
        if is_of_ledger(identifier) or not _has_ledger(catalog):
            raise
        return _load_again(catalog, identifier, error_text(gone))


def _has_ledger(catalog: Catalog) -> bool:
    """Whether a ledger has its files, damaged or not: if none has, the warehouse may be away as a
    whole."""
    with suppress(FileNotFoundError, NoSuchNamespaceError, NoSuchTableError):
        for table in list_tables(catalog, LEDGER_NAMESPACE)[:1]:
            with suppress(LedgerDamagedError):
                retry_while_away(partial(load_once, catalog, table))
            return True
    return False


def _load_again(catalog: Catalog, identifier: Identifier, why: str) -> Table:
    """Load a table whose file was missing, as it is for a moment if others replace it."""
    again = limited_retries(_OPEN_TRIES, (FileNotFoundError,), _LONGEST_PAUSE)
    try:
        table: Table = again(retry_while_away, partial(load_once, catalog, identifier))
    except FileNotFoundError as error:
        file = _metadata_file(catalog, identifier) or "the file that has it"
        raise UnknownMetadataError(
            f"{'.'.join(identifier)}: its metadata is missing ({why}); the catalog names a file "
            f"that is not in the warehouse: put {file} back from a backup"
        ) from error
    return table


def load_once(catalog: Catalog, identifier: Identifier) -> Table:
    """Load a table as it is now.

    Raises UnknownMetadataError, for a table of the ledger LedgerDamagedError, if its metadata
    cannot be read; other errors unchanged.
    """
    try:
        return catalog.load_table(identifier)
    except _OF_METADATA as error:
        if is_of_a_store(error) or not is_of_content(error):
            raise
        file = _metadata_file(catalog, identifier) or "the file that has it"
        why = f"{'.'.join(identifier)}: its metadata cannot be read ({error_text(error)})"
        advice = f"put {file} back from a backup if it is damaged, or take back"
        text = f"{why}; {advice} what another engine gave the table that pyiceberg does not know"
        raise (
            ledger_damage(text) if is_of_ledger(identifier) else UnknownMetadataError(text)
        ) from error


def _metadata_file(catalog: Catalog, identifier: Identifier) -> str:
    """Return where an SQL catalog has a table's metadata; "" for REST, whose server reads it."""
    if (engine := getattr(catalog, "engine", None)) is None:
        return ""
    from pyiceberg.catalog.sql import IcebergTables  # imported already where there is an engine

    wanted = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == ".".join(identifier[:-1]),
        IcebergTables.table_name == identifier[-1],
    )
    with engine.connect() as connection:
        return connection.execute(wanted).scalar() or ""


def list_tables(catalog: Catalog, namespace: str | Identifier) -> list[Identifier]:
    """List the tables of a namespace, also if the catalog is away for a while."""
    return retry_while_away(lambda: catalog.list_tables(namespace))


def find_table(catalog: Catalog, namespace: str, name: str) -> Table | None:
    """Load a table as `load_table` does; None if it does not exist."""
    try:
        return load_table(catalog, (namespace, name))
    except NoSuchTableError:
        return None


def known_table(catalog: Catalog, namespace: str, name: str) -> Table:
    """Load a table that must exist; raises TerminalError if somebody dropped it."""
    table = find_table(catalog, namespace, name)
    if table is None:
        raise TerminalError(f"{full_name(namespace, name)} is gone: somebody dropped it")
    return table


def _load(properties: dict[str, str]) -> Catalog:
    # Another process that opens the new lake may just have created the catalog's tables.
    created_meanwhile: Errors = (IntegrityError, ProgrammingError)
    again = limited_retries(_OPEN_TRIES, created_meanwhile, _LONGEST_PAUSE)
    catalog = again(load_catalog, CATALOG, **properties)
    if (engine := getattr(catalog, "engine", None)) is not None:
        event.listen(engine, "handle_error", _leave_standby)
    return catalog


def _leave_standby(context: ExceptionContext) -> None:
    """Discard the pool's connections to a server that became a standby: they stay open, and only
    new ones reach the server that has its place."""
    if is_switchover(context.original_exception):
        context.is_disconnect = True


def _pyiceberg_properties(catalog: CatalogConfig) -> dict[str, str]:
    if catalog.type == "rest":
        return {
            **catalog.properties, "py-catalog-impl": _REST, "uri": catalog.uri, **rest_secrets(),
        }  # fmt: skip
    if catalog.is_sqlite:
        uri = f"sqlite:///{catalog.sqlite_path}?timeout={SQLITE_WAIT_SECONDS}"
        return {"type": "sql", "uri": uri}
    uri = catalog.uri.replace("postgresql://", "postgresql+psycopg2://", 1)
    return {"type": "sql", "uri": _with_timeouts(uri), "pool_pre_ping": "true"}


def _with_timeouts(uri: str) -> str:
    """Return the URI with timeouts and keepalives; parameters that it has already are kept."""
    given = parse_qs(urlsplit(uri).query)
    more = urlencode({name: value for name, value in _LIBPQ.items() if name not in given})
    return f"{uri}{'&' if '?' in uri else '?'}{more}" if more else uri


def _s3_properties(project: Project) -> dict[str, str]:
    if not project.lake.on_s3:
        return {}
    properties = {
        "s3.endpoint": s3_endpoint(),
        "s3.region": s3_region(),
        "s3.retry-strategy-impl": _S3_RETRIES,
    }
    known = {name: value for name, value in properties.items() if value}
    return known | from_environment(_S3_SECRETS)
