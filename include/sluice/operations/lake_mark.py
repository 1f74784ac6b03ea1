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
from sluice.config.locations import S3_SCHEME
from sluice.config.project import Project
from sluice.environment import ENV_CATALOG_URI
from sluice.errors import OtherLakeError, TransientError
from sluice.faults import Point, reach
from sluice.ledger.ledger import Ledger
from sluice.ledger.tables import BATCHES
from sluice.names import LEDGER_NAMESPACE
from sluice.objects.store import open_store
from sluice.typed_json import TypedJson

T = TypeVar("T")

_KEY: Final = "lake.json"
# What a catalog has that is not the marked one's, and what else to do about it.
_OF_ANOTHER: Final = (
    "another ledger",
    "If both loaded into this warehouse, give one a new, empty catalog and a lake.warehouse of its "
    "own, and load there what landed again. If this catalog is the right one and the other never "
    "loaded anything, delete {mark}",
)
_OF_NONE: Final = (
    "no ledger",
    "Give a copied project a lake.warehouse of its own. If the other catalog is gone for good, "
    "register its tables in this one; or move the folder {folder} away, and a new lake begins "
    "here: maintenance then removes the files of the former one",
)


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

    Raises OtherLakeError if the warehouse, or the folder of the catalog's ledger, is marked for
    another ledger, or has a mark that cannot be read; or if the catalog has no ledger and the
    warehouse is that of one. Then nothing is made, except by the later of two that begin at once.
    `say` is told of a catalog without a ledger.
    """
    ledger = Ledger(catalog)
    marks = {folder: _read(project, folder) for folder in _folders(project, ledger)}
    for folder, mark in marks.items():
        if mark is not None:
            _refuse_other(project, folder, mark, ledger)
    if not ledger.uuid():
        _refuse_loaded(project, ledger)
        say(no_ledger(project) if read_only else f"this lake is new: {_place(project)}")
    if not read_only:
        ledger.ensure()
        reach(Point.LAKE_LEDGER)
        for folder in (folder for folder, mark in marks.items() if mark is None):
            _refuse_other(project, folder, _written(project, folder, ledger), ledger)
            reach(Point.LAKE_MARKED)
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


def _folders(project: Project, ledger: Ledger) -> list[str]:
    """Return the folders that have a mark: that of the warehouse, and that of the catalog's ledger,
    which stays where it is if `lake.warehouse` becomes another one. A REST catalog gives the ledger
    a place of its own, to which only its tables need rights."""
    folders = [_folder(project)]
    there = ledger.folder() if project.lake.catalog.type == "jdbc" else ""
    if there.startswith(("/", S3_SCHEME)) and there not in folders:
        folders.append(there)
    return folders


def _folder(project: Project) -> str:
    return f"{project.lake.warehouse}/{LEDGER_NAMESPACE}"


def _read(project: Project, folder: str) -> _Mark | None:
    try:
        return _Mark.from_json(_waiting(lambda: open_store(folder).get(_KEY)).decode())
    except FileNotFoundError:
        return None
    except ValueError as error:  # somebody wrote it by hand
        raise OtherLakeError(
            f"{folder}/{_KEY} is no mark of a lake, so nothing was done: delete it if this catalog "
            f"is the right one ({_place(project)})"
        ) from error


def _written(project: Project, folder: str, ledger: Ledger) -> _Mark:
    """Mark the folder, unless another process was faster; return the mark that it has."""
    own = _Mark(ledger.uuid(), project.lake.catalog.address)
    if _waiting(lambda: open_store(folder).put_if_absent(_KEY, own.to_json().encode())):
        return own
    return _read(project, folder) or own


def _waiting(request: Callable[[], T]) -> T:
    """Wait for a store that is away as long as for the ledger's tables, which are beside."""
    return retry_while_away(request, also=(TransientError,))


def _refuse_loaded(project: Project, ledger: Ledger) -> None:
    """Refuse an unmarked warehouse, as of an earlier release, that has commits of a ledger.

    If another process begins with this catalog, that has the ledger before the first commit.
    """
    commits = open_store(f"{_folder(project)}/{BATCHES}/metadata")
    if _waiting(lambda: next(commits.list("snap-*.avro"), None)) and not ledger.uuid():
        _refuse_other(project, _folder(project), _Mark("", "another catalog"), ledger)


def _refuse_other(project: Project, folder: str, mark: _Mark, ledger: Ledger) -> None:
    if mark.ledger and mark.ledger == ledger.uuid():
        return
    address, warehouse = project.lake.catalog.address, folder.rpartition("/")[0]
    has, advice = _OF_ANOTHER if ledger.uuid() else _OF_NONE
    raise OtherLakeError(
        f"the warehouse {warehouse} has the lake of {mark.catalog}, and the catalog {address} has "
        f"{has}: two catalogs over one warehouse remove each other's files, so nothing was loaded "
        f"or removed. Correct lake.catalog.uri, or {ENV_CATALOG_URI} (set, or not set, by mistake; "
        "an SQLite file's path that is mistyped or not mounted). "
        + advice.format(folder=folder, mark=f"{folder}/{_KEY}")
    )
