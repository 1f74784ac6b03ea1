"""land as a whole: what a run claims, on a real folder and a real ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice import land as land_module
from sluice.context import Context, open_context
from sluice.errors import Unsettled
from sluice.land import land
from sluice.landing import Inspection, inspect
from sluice.store import ObjectStore, StoredObject

PROJECT = """lake:
  catalog: {type: jdbc, uri: "sqlite:///lake.db"}
  warehouse: warehouse
"""
PIPELINE = "name: shop\nnamespace: shop\nformat: debezium\nlanding: {url: landing}\n"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "sluice.yaml").write_text(PROJECT)
    (tmp_path / "pipelines" / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "landing").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "landing" / name).write_text(f'{{"op": "{name}"}}\n')
    return open_context(tmp_path, "shop")


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch, context: Context) -> Path:
    """`b.jsonl` grows between the listing and the reading, every time."""
    path = context.project.root / "landing" / "b.jsonl"

    def grow_and_inspect(
        store: ObjectStore, staging: ObjectStore, found: StoredObject, *rest: Any
    ) -> Inspection:
        if found.key == path.name:
            path.write_text(path.read_text() + '{"op": "more"}\n')
        return inspect(store, staging, found, *rest)

    monkeypatch.setattr(land_module, "inspect", grow_and_inspect)
    return path


def keys(context: Context, manifests: list[str]) -> list[str]:
    return [f.key for key in manifests for f in context.files.read_manifest(key).files]


def test_a_file_still_being_written_waits_and_holds_nobody_up(
    context: Context, growing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(context, land(context)) == ["a.jsonl"]
    monkeypatch.setattr(land_module, "inspect", inspect)
    assert keys(context, land(context)) == ["b.jsonl"]


def test_a_file_asked_for_by_name_is_never_left_out(context: Context, growing: Path) -> None:
    with pytest.raises(Unsettled, match="still being written"):
        land(context, files=["b.jsonl"])
    assert context.ledger.known_files("shop") == {}
