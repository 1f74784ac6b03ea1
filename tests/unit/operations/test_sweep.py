"""What dead attempts left beside the tables goes; what a batch needs stays."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Never

import pytest

from sluice.errors import BatchFileDamagedError
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import FAILED, LANDED, PUBLISHED, PUBLISHING
from sluice.manifest import Manifest, SourceFile
from sluice.objects.batch_files import BatchFiles
from sluice.operations.context import Context, open_context
from sluice.operations.sweep import clean_up, sweep

pytestmark = pytest.mark.catalog

NOW: Final = datetime.now(UTC)
OLD: Final = (NOW - timedelta(days=5)).timestamp()
BEFORE: Final = NOW - timedelta(days=3)
SCRATCH: Final = ("0.parquet", ".0.parquet.crc", "_SUCCESS", "_temporary/0/_temporary/1/1.parquet")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "sluice.yaml").write_text(
        'lake: {catalog: {type: jdbc, uri: "sqlite:///c.db"}, warehouse: warehouse}\n'
    )
    (tmp_path / "pipelines" / "p.yaml").write_text(
        "{name: p, format: debezium, namespace: p, landing: {url: landing}}"
    )
    return open_context(tmp_path, "p")


def batch(ctx: Context, batch_id: str, state: str) -> list[str]:
    """A batch with one staged file and some scratch; the keys of what it has."""
    files = ctx.files
    staged = f"{files.staging_prefix('p')}{batch_id}.jsonl"
    source = SourceFile(key=batch_id, url=files.store.url(staged), size=1, staged=True)
    key = files.write_manifest(Manifest("p", batch_id, (source,)))
    scratch = [f"p/{batch_id}/decoded-a1/{name}" for name in SCRATCH]
    for name in (staged, *scratch):
        files.store.put(name, b"x")
    if state:
        ctx.ledger.batches.record(batch_id, state, attempt="a1", manifest=key)
    return [staged, key, *scratch]


def claimed(ctx: Context, batch_id: str, file: SourceFile) -> None:
    """A batch whose landing died before it was recorded."""
    ctx.ledger.files.claim(ClaimRequest((file,), lambda _: batch_id))
    ctx.files.write_manifest(Manifest("p", batch_id, (file,)))


def age(ctx: Context) -> Path:
    folder = Path(ctx.files.store.url("p").removeprefix("file://"))
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))
    return folder


def there(files: BatchFiles) -> set[str]:
    """What is on the disk, hidden or not."""
    store = Path(files.store.url("").removeprefix("file://"))
    return {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}


def test_files_that_no_batch_needs_are_removed(ctx: Context) -> None:
    Ledger(ctx.catalog).ensure()
    unknown = batch(ctx, "b-unknown", "")
    done_staged, done_manifest, *done_scratch = batch(ctx, "b-done", PUBLISHED)
    failed, landed = batch(ctx, "b-failed", FAILED), batch(ctx, "b-landed", LANDED)
    (age(ctx) / ".put-half").write_bytes(b"x")
    age(ctx)
    young = batch(ctx, "b-young", "")

    gone = {*unknown, done_staged, *done_scratch}
    assert sweep(ctx.files, ctx.ledger, BEFORE, dry_run=True) == len(gone)
    assert gone <= there(ctx.files)
    assert sweep(ctx.files, ctx.ledger, BEFORE, dry_run=False) == len(gone)
    assert there(ctx.files) == {done_manifest, *failed, *landed, *young}


def test_nothing_goes_while_it_is_unknown_what_a_batch_needs(ctx: Context) -> None:
    Ledger(ctx.catalog).ensure()
    landed = batch(ctx, "b-landed", LANDED)
    ctx.files.store.put(landed[1], b"\xff")
    age(ctx)
    with pytest.raises(BatchFileDamagedError, match="b-landed"):
        sweep(ctx.files, ctx.ledger, BEFORE, dry_run=False)
    assert there(ctx.files) == set(landed)


def test_a_disk_that_keeps_files_keeps_no_batch_from_its_end(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Never:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    messages: list[str] = []
    monkeypatch.setattr(ctx.files.store, "delete_prefix", refuse)
    clean_up(ctx.files, ctx.ledger, Manifest("p", "b1", ()), messages.append)
    assert [line for line in messages if "left to maintenance" in line] == messages != []


@pytest.mark.parametrize(
    ("state", "stays"), [(LANDED, True), (FAILED, True), (PUBLISHING, False), (PUBLISHED, False)]
)
def test_a_staged_file_that_another_batch_may_read_stays(
    ctx: Context, state: str, stays: bool
) -> None:
    """Its manifest is there before the ledger has the batch."""
    Ledger(ctx.catalog).ensure()
    staged, key, *scratch = batch(ctx, "b1", PUBLISHED)
    manifest = ctx.files.read_manifest(key)
    ctx.files.write_manifest(replace(manifest, batch_id="b2"))
    ctx.ledger.batches.record("b2", state, attempt="", manifest="")
    clean_up(ctx.files, ctx.ledger, manifest, print)
    assert (staged in there(ctx.files), there(ctx.files) & {*scratch}) == (stays, set())


def test_batches_of_other_files_are_not_asked_for_their_staged_files(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many batches may wait while one is published; one that has claimed no file reads those of
    others."""
    Ledger(ctx.catalog).ensure()
    staged, key, *_ = batch(ctx, "b1", PUBLISHED)
    manifest = ctx.files.read_manifest(key)
    again = SourceFile(key="b1", url=manifest.files[0].url, size=1, staged=True)
    claimed(ctx, "b2", SourceFile(key="b2", url="file:///2.jsonl", size=1, staged=True))
    claimed(ctx, "b3", SourceFile(key="b3", url="file:///3.jsonl", size=1, staged=True))
    claimed(ctx, "b4", again)
    ctx.files.write_manifest(replace(manifest, batch_id="share"))
    ctx.ledger.batches.record("share", FAILED)
    reads: list[str] = []
    read = ctx.files.read_manifest

    def counted(key: str) -> Manifest:
        reads.append(key.split("/")[1])
        return read(key)

    monkeypatch.setattr(ctx.files, "read_manifest", counted)
    clean_up(ctx.files, ctx.ledger, manifest, print)
    assert sorted(reads) == ["b4", "share"]
    assert staged in there(ctx.files)
