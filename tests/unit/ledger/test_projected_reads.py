"""Of the ledger of a year are read the columns and rows that a question is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.table import DataScan, FileScanTask

from sluice.catalog.scan_files import read_files
from sluice.ledger import scans
from sluice.ledger.ledger import PipelineLedger
from tests.unit.ledger_rows import claim, publication

pytestmark = pytest.mark.catalog


def test_the_batches_of_a_table_are_found_among_its_own_rows(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline of years has published many batches, and one batch many tables."""
    ledger.publications.record([publication("t1"), publication("t2")])
    first = ledger.publications.of_batches("b")[0]
    ledger.publications.record([replace(first, namespace="elsewhere", batch_id="c", seq=0)])
    read = read_of_ledger(monkeypatch)
    assert ledger.publications.batches_of(first.namespace, "t1") == {"b"}
    assert ledger.publications.batches_of(first.namespace, "t3") == set()
    assert read == [("publications", 1, ("batch_id",)), ("publications", 0, ("batch_id",))]


def test_what_files_wait_for_is_read_without_their_objects(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year has hundreds of thousands, with long keys, checksums and ETags."""
    batch, _ = claim(ledger, "a")
    read = read_of_ledger(monkeypatch)
    assert [row.batch_id for row in ledger.unfinished()] == [batch]
    assert (ledger.files.held(), ledger.files.undone()) == ([], [])
    assert ledger.files.batches_without(["b"]) == {batch}
    ((_, _, columns),) = (one for one in read if one[0] == "files")
    assert set(columns) == {"object_key", "batch_id", "state", "seq", "at"}


def test_contents_are_read_without_what_else_is_known_of_the_files(
    ledger: PipelineLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(ledger, "a")
    read = read_of_ledger(monkeypatch)
    ledger.files.known_contents(lambda _, sha256: sha256, epochs=None)
    ((_, _, columns),) = (one for one in read if one[0] == "files")
    assert set(columns) == {"object_key", "sha256", "batch_id", "state", "seq"}


def read_of_ledger(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, tuple[str, ...]]]:
    """Collects, for each scan, its table, the number of rows and the columns that it asks for."""
    asked: list[tuple[str, int, tuple[str, ...]]] = []

    def noted(wanted: DataScan, tasks: Sequence[FileScanTask]) -> pa.Table:
        rows = read_files(wanted, tasks)
        assert wanted.table_identifier is not None
        asked.append((wanted.table_identifier[-1], rows.num_rows, wanted.selected_fields))
        return rows

    monkeypatch.setattr(scans, "read_files", noted)
    return asked
