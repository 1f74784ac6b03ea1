"""The mark of a warehouse, which names the lake that has it: no two catalogs may share one.

Both would have their tables in the same folders, and the maintenance of each would remove the
files of the other's as orphans. The mark is written once, by the first that writes, and is beside
the ledger's tables, where all who write have the right to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pyiceberg.catalog import Catalog

from sluice.catalog.retries import retry_while_away
from sluice.config.project import Project
from sluice.environment import ENV_CATALOG_URI
from sluice.errors import OtherLakeError, TransientError
from sluice.ledger.ledger import Ledger
from sluice.names import LEDGER_NAMESPACE
from sluice.objects.store import ObjectStore, open_store
from sluice.typed_json import TypedJson

T = TypeVar("T")

_KEY: Final = "lake.json"


@dataclass(frozen=True)
class _Mark(TypedJson):
    """`ledger`: see `Ledger.uuid`; a table that is registered again keeps it. `catalog`: the
    address of the catalog whose lake this was first, for people."""

    ledger: str
    catalog: str


def own_ledger(
    project: Project,
    catalog: Catalog,
    say: Callable[[str], None] = lambda _: None,
    *,
    read_only: bool = False,
) -> Ledger:
    """Return the lake's ledger, made and its warehouse marked unless this is `read_only`.

    Raises OtherLakeError if the warehouse is marked for another ledger than the catalog's, or its
    mark cannot be read, before anything is made. `say` is told of a catalog without a ledger.
    """
    ledger, store = Ledger(catalog), open_store(_folder(project))
    mark = _read(project, store)
    if mark is not None:
        _refuse_other(project, mark, ledger)
    elif not ledger.uuid():
        say(no_ledger(project) if read_only else f"this lake is new: {_place(project)}")
    if not read_only:
        ledger.ensure()
        if mark is None:
            _refuse_other(project, _written(store, project, ledger), ledger)
    return ledger


def no_ledger(project: Project) -> str:
    """Return the message for a catalog that has no ledger, to who only reads."""
    return (
        f"nothing was ever loaded by this catalog ({_place(project)}); if something was, correct "
        f"lake.catalog.uri, or {ENV_CATALOG_URI} where that is set"
    )


def _place(project: Project) -> str:
    lake = project.lake
    return f"catalog {lake.catalog.address}, warehouse {lake.warehouse}"


def _folder(project: Project) -> str:
    return f"{project.lake.warehouse}/{LEDGER_NAMESPACE}"


def _read(project: Project, store: ObjectStore) -> _Mark | None:
    try:
        return _Mark.from_json(_waiting(lambda: store.get(_KEY)).decode())
    except FileNotFoundError:
        return None
    except ValueError as error:  # somebody wrote it by hand
        raise OtherLakeError(
            f"{_folder(project)}/{_KEY} is no mark of a lake, so nothing was done: delete it if "
            f"this catalog is the right one ({_place(project)})"
        ) from error


def _written(store: ObjectStore, project: Project, ledger: Ledger) -> _Mark:
    """Mark the warehouse, unless another process was faster; return the mark that it has."""
    own = _Mark(ledger.uuid(), project.lake.catalog.address)
    if _waiting(lambda: store.put_if_absent(_KEY, own.to_json().encode())):
        return own
    return _read(project, store) or own


def _waiting(request: Callable[[], T]) -> T:
    """Wait for a store that is away as long as for the ledger's tables, which are beside."""
    return retry_while_away(request, also=(TransientError,))


def _refuse_other(project: Project, mark: _Mark, ledger: Ledger) -> None:
    if mark.ledger and mark.ledger == ledger.uuid():
        return
    lake = project.lake
    has = "another ledger" if ledger.uuid() else "no ledger"
    path = f"{_folder(project)}/{_KEY}"
    raise OtherLakeError(
        f"the warehouse {lake.warehouse} has the lake of {mark.catalog}, and the catalog "
        f"{lake.catalog.address} has {has}: two catalogs over one warehouse remove each other's "
        f"files, so nothing was done. Correct lake.catalog.uri, or {ENV_CATALOG_URI} (set, or not "
        "set, by mistake; an SQLite file's path that is mistyped or not mounted), or give a copied "
        "project a lake.warehouse of its own. If the other catalog is gone for good, register its "
        f"tables in this one; or delete {path}, and the lake begins anew: maintenance then removes "
        "the files of the former one"
    )
