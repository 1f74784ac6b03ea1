"""A bucket may return the versions of its objects at one time and not at another, by the rights
that Sluice then has. A missing version does not make an object another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.ledger.states import FILE_LOADED, PUBLISHED
from sluice.manifest import Manifest, SourceFile
from sluice.objects import store as stores
from sluice.objects.originals import refuse_replaced
from sluice.objects.store import is_same_object
from sluice.operations.context import Context
from sluice.operations.land import candidates
from sluice.operations.selection import Selection, open_landing
from tests.all_readable import land
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog
CHANGES = [("", "v1", False), ("v1", "", False), ("v1", "v2", True), ("v1", "v1", False)]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the landing tell this version of each object."""
    describe = stores._describe

    def tell(version: str) -> None:
        monkeypatch.setattr(
            stores, "_describe", lambda *of: replace(describe(*of), version_id=version)
        )

    return tell


@pytest.fixture
def context(tmp_path: Path) -> Context:
    context = open_shop(tmp_path)
    (tmp_path / "landing" / "a.jsonl").write_text('{"op": "c"}\n')
    return context


def loaded(context: Context) -> Manifest:
    (key,) = land(context)
    manifest = context.files.read_manifest(key)
    context.ledger.files.mark(manifest.batch_id, FILE_LOADED)
    context.ledger.batches.record(manifest.batch_id, PUBLISHED)
    return manifest


@pytest.mark.parametrize(("before", "now", "another"), CHANGES)
def test_only_another_version_is_another_object(
    context: Context, versions: Callable[[str], None], before: str, now: str, another: bool
) -> None:
    """Each run named every loaded file as changed."""
    versions(before)
    loaded(context)
    versions(now)
    (found,) = open_landing(context).list()
    left, known = context.ledger.files.unclaimed_or_changed([found])
    assert [one.key for one in left] == list(known) == ["a.jsonl"] * another
    assert is_same_object(found, context.ledger.files.known()["a.jsonl"]) != another
    loadable = candidates(context, Selection(changed=True))
    assert [one.key for one in loadable] == ["a.jsonl"] * another


def test_missing_version_does_not_read_the_file_again(
    context: Context, versions: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions("v1")
    manifest = loaded(context)
    read: list[str] = []

    def checksum(_: object, key: str) -> str:
        read.append(key)
        return str(manifest.files[0].sha256)

    monkeypatch.setattr("sluice.objects.originals._checksum", checksum)
    versions("")
    refuse_replaced(context.pipeline, manifest)
    assert read == []
    versions("v2")
    refuse_replaced(context.pipeline, manifest)
    assert read == ["a.jsonl"]


@pytest.mark.parametrize(("before", "now", "another"), CHANGES)
def test_size_and_etag_always_identify_an_object(before: str, now: str, another: bool) -> None:
    one = SourceFile("a", "file:///a", 1, "e", before)
    other = replace(one, version_id=now)
    assert stores.is_same_object(one, other) != another
    assert not stores.is_same_object(one, replace(other, etag="f"))
    assert not stores.is_same_object(one, replace(other, size=2))
