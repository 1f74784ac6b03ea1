"""Schemas of many files: a batch holds each once, and takes no more of them than it may have."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import fastavro
import pytest

from sluice.manifest import AVRO, Manifest, SourceFile
from sluice.operations import batch_limits as batch_limits_module
from sluice.operations import reprocess as reprocess_module
from sluice.operations.context import Context
from sluice.operations.inspecting import Inspecting
from sluice.operations.quarantined import Unresolved
from sluice.operations.reprocess import QuarantinedFiles
from sluice.operations.selection import EVERYTHING, Selection, open_landing, selected
from tests.all_readable import land, land_tables
from tests.unit.oldmanifests import inline
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.catalog

DOC = "x" * 1000


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path, f"{SHOP}tables: {{orders: {{}}}}\n")


def write(context: Context, key: str, name: str) -> None:
    """A file whose schema of a little more than a thousand bytes is told by a name."""
    fields = [{"name": "k", "type": "string"}]
    schema = {"type": "record", "name": name, "doc": DOC, "fields": fields}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"k": key}])
    (context.project.root / "landing" / key).write_bytes(out.getvalue())


def room_for(monkeypatch: pytest.MonkeyPatch, schemas: int) -> None:
    most = schemas * (len(DOC) + 200)
    monkeypatch.setattr(batch_limits_module, "SCHEMA_BYTES_OF_A_BATCH", most)


def test_distinct_schemas_above_the_limit_make_further_batches(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        write(context, f"{n}.avro", f"row{n}")
    room_for(monkeypatch, schemas=2)
    manifests = land(context)
    assert [keys(context, [key]) for key in manifests] == [
        ["0.avro", "1.avro"], ["2.avro", "3.avro"], ["4.avro"],
    ]  # fmt: skip
    assert land(context) == []


def test_distinct_schemas_make_further_batches_in_a_run_for_some_tables(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        write(context, f"{n}.avro", f"row{n}")
    room_for(monkeypatch, schemas=2)
    assert len(land_tables(context, Selection(tables=("orders",)))) == 2


def test_a_schema_counts_once_and_alone_it_may_be_above_the_limit(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        write(context, f"{n}.avro", "row")
    room_for(monkeypatch, schemas=1)
    assert len(land(context)) == 1
    room_for(monkeypatch, schemas=0)
    for n in range(3, 6):
        write(context, f"{n}.avro", "row")
    assert len(land(context)) == 1


@pytest.mark.parametrize(("distinct", "batches"), [(2, 1), (3, 2)])
def test_batches_that_are_decoded_again_share_the_limit(
    context: Context, monkeypatch: pytest.MonkeyPatch, distinct: int, batches: int
) -> None:
    monkeypatch.setattr(reprocess_module, "SCHEMA_BYTES_OF_A_BATCH", 2 * len(DOC) + 2)
    files = [SourceFile(str(n), "", 1, avro_schema=f"{DOC}{n % distinct}") for n in range(3)]
    taken = [QuarantinedFiles(Unresolved(f.key, Counter({f.key: 1})), (f,), 0) for f in files]
    assert len(list(reprocess_module._chunks(context, taken))) == batches


def test_files_of_one_schema_share_its_text(context: Context) -> None:
    for n in range(3):
        write(context, f"{n}.avro", "row")
    store = open_landing(context)
    looks = Inspecting(context, store, named=False).all(selected(context, store, EVERYTHING))
    assert len({id(one.inspection.file.avro_schema) for one in looks}) == 1


def test_a_manifest_that_an_earlier_release_stored_is_the_same(context: Context) -> None:
    files = (SourceFile("k", "file:///k", 1, container=AVRO, avro_schema='{"type": "record"}'),)
    manifest = Manifest("shop", "b", files)
    key = context.files.manifest_key("shop", "b")
    context.files.store.put(key, inline(manifest).encode())
    assert context.files.put_manifest(manifest)
    assert not context.files.put_manifest(Manifest("shop", "b", ()))
