"""Reads of a table's files by pyiceberg: of a damaged one, the error names the table and the
file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from pyiceberg.table import DataScan
from pyiceberg.typedef import Identifier

from sluice.catalog.failures import error_text, is_of_a_store, is_of_content
from sluice.catalog.scan_files import read_files
from sluice.errors import LedgerDamagedError, TerminalError
from sluice.names import LEDGER_NAMESPACE

_WHERE: Final = "docs/operations.md, A damaged file of the ledger"


@contextmanager
def explained_damage(
    scan: DataScan, identifier: Identifier, *, lists_only: bool = False
) -> Iterator[None]:
    """Read a table's files within this; `scan`: what is read, `lists_only`: only its lists of
    files.

    Raises TerminalError, for a table of the ledger LedgerDamagedError, over a damaged file, or over
    what pyiceberg does not know, such as equality deletes; errors of a store or catalog unchanged.
    """
    try:
        yield
    except Exception as error:  # a reader may raise anything for damaged bytes
        if not is_of_content(error):
            raise
        file = damaged_file(scan, lists_only=lists_only)
        if not file and is_of_a_store(error):
            raise  # of bytes that were damaged on their way: now they are not
        advice = f"; if {file} is damaged, put it back from a backup" if file else ""
        why = f"{'.'.join(identifier)} cannot be read: {error_text(error)}{advice}"
        raise (ledger_damage(why) if is_of_ledger(identifier) else TerminalError(why)) from error


def is_of_ledger(identifier: Identifier) -> bool:
    """Whether a table is one of the ledger."""
    return identifier[0] == LEDGER_NAMESPACE


def ledger_damage(why: str) -> LedgerDamagedError:
    """Return the error of a table of the ledger that cannot be read."""
    return LedgerDamagedError(f"{why} ({_WHERE})")


def damaged_file(scan: DataScan, *, lists_only: bool = False) -> str:
    """Return the first damaged file that a scan reads, lists of files included; "" if there is
    none, or it cannot be found out."""
    path = ""
    try:
        for path, read in _reads(scan, lists_only):
            read()
            path = ""
    except Exception as error:  # as above; what else failed is the caller's to report
        return path if is_of_content(error) else ""
    return ""


def _reads(scan: DataScan, lists_only: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each file of a scan with what reads it, lists first. A file of rows comes with those
    that delete some of them."""
    snapshot = scan.snapshot()
    if snapshot is None:
        return
    yield snapshot.manifest_list, partial(snapshot.manifests, scan.io)
    for manifest in snapshot.manifests(scan.io):
        yield manifest.manifest_path, partial(manifest.fetch_manifest_entry, scan.io)
    if lists_only:
        return
    for task in scan.plan_files():
        paths = [task.file.file_path, *(deletes.file_path for deletes in task.delete_files)]
        yield " or ".join(paths), partial(read_files, scan, [task])
