"""What stands in for the stages of Sluice in runs of the real DAGs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sluice.catalog.table_rollback import MainChange
from sluice.config.project import load_sound
from sluice.errors import FileDeniedError, TransientError
from sluice.ledger.rows import BatchRow
from sluice.operations import rollback
from sluice.operations.refolding import Undone
from sluice.operations.selection import Selection
from sluice.operations.unreadable_files import UnreadableFiles
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from sluice_airflow import landing, submit, tasks

MANIFEST = "shop/{}/manifest.json"
Runs = Callable[..., tuple[Any, dict[str, str]]]
"""Runs a DAG by its id, as `dag.test` is told; returns the run and its tasks' states."""


@dataclass
class Stages:
    """Replaces `operations.stages`: records the calls, and fails where the test says so."""

    batches: list[str] = field(default_factory=lambda: ["b1", "b2"])
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    state: str = "loading"
    denied: dict[str, FileDeniedError | TransientError] = field(default_factory=dict)

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        if waiting := self.failures.get(":".join(map(str, call[:2]))):
            raise waiting.pop(0)

    def of(self, stage: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == stage]


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """Replace the stages by one that remembers."""
    fake = Stages()
    module: Any = ModuleType("stages")
    module.open_context = lambda folder, pipeline, *say: fake_context(fake, folder, pipeline)
    module.reconcile = lambda ctx: fake.note("reconcile", ctx.pipeline.name) or []
    module.land = lambda ctx, asked, unreadable: landed(
        fake, unreadable, *parts_of(asked), *(["changed"] if asked.changed else [])
    )
    module.land_tables = lambda ctx, asked, unreadable: landed(
        fake, unreadable, asked.tables, *parts_of(asked)
    )
    module.publish = lambda ctx, manifest: published(fake, manifest)
    module.give_up = lambda ctx, batch: undone(fake, batch, False)
    module.published_after = lambda ctx, batch: ["b8", "b7"]
    again: Any = ModuleType("reprocess")
    again.land_quarantined = lambda ctx, *given, signature: landed_again(
        fake, ctx.pipeline.name, *given, signature
    )
    refolding: Any = ModuleType("refolding")
    refolding.undo_or_refold = lambda ctx, batch, dry_run, order: for_good(
        fake, batch, dry_run, order
    )
    refolding.undo_or_refold_after = lambda ctx, batch, dry_run, order: for_good(
        fake, "after", batch, dry_run, order
    )
    refolding.rebuild = lambda ctx, *asked: rebuilt(fake, *asked)
    refolding.named_targets = lambda ctx, table: []
    for name, stand_in in (("stages", module), ("reprocess", again)):
        monkeypatch.setattr(tasks, name, stand_in)
    monkeypatch.setattr(landing, "stages", module)
    for name, stand_in in (("undo", module), ("refolding", refolding)):
        monkeypatch.setattr(rollback, name, stand_in)
    monkeypatch.setattr(
        rollback, "release_batch", lambda ctx, batch: fake.note("release", batch) or 3
    )
    for name in ("candidates", "table_candidates"):
        monkeypatch.setattr(landing, name, lambda *_: [])
    monkeypatch.setattr(tasks, "require_published", lambda *_: [])
    monkeypatch.setattr(landing, "why_nothing", lambda *_: "no file matches")
    monkeypatch.setattr(submit, "_submit", lambda hook, application: loaded(fake, hook))
    monkeypatch.setattr(submit, "_is_small", lambda ctx, manifest: True)
    return fake


def fake_context(fake: Stages, folder: Path, pipeline: str) -> Any:
    context: Any = ModuleType("context")
    context.project = load_sound(folder)
    context.pipeline = context.project.pipeline(pipeline)
    context.ledger = ModuleType("ledger")
    context.ledger.unfinished = list
    context.ledger.files = ModuleType("files")
    context.ledger.files.undone = context.ledger.files.held = list
    context.ledger.files.of_batch = lambda b: [b]
    context.ledger.batches = ModuleType("batches")
    context.ledger.batches.get = lambda b: row(fake)
    context.ledger.batches.all = list
    context.ledger.batches.record = lambda b, state, **asked: signed(fake, b, **asked)
    return context


def row(fake: Stages) -> BatchRow:
    return BatchRow("shop", "b7", "a1", fake.state)


def signed(fake: Stages, batch: str, add_details: Any, expected: Callable[..., bool]) -> None:
    if expected(row(fake)):
        fake.note("sign", batch, add_details)


def parts_of(asked: Selection) -> tuple[Any, ...]:
    return asked.window, asked.until, list(asked.files) or None


def landed(fake: Stages, unreadable: UnreadableFiles, *given: Any) -> list[str]:
    fake.note("land", *given)
    unreadable.errors.update(fake.denied)
    return [MANIFEST.format(batch) for batch in fake.batches]


def landed_again(fake: Stages, *given: Any) -> list[str]:
    fake.note("again", *given)
    return [MANIFEST.format(batch) for batch in fake.batches]


def undone(fake: Stages, *given: Any) -> list[str]:
    fake.note("rollback", *given)
    return ["moved"]


def for_good(fake: Stages, *given: Any) -> Undone:
    fake.state = "rolled_back"
    return Undone(undone(fake, *given))


def rebuilt(fake: Stages, *given: Any) -> list[MainChange]:
    fake.note("rollback", "rebuild", *given)
    return [MainChange("shop.orders", 1, 2)]


def loaded(fake: Stages, hook: Any) -> None:
    fake.note("load", hook._application_args[3].split("/")[1], hook._env_vars)


def published(fake: Stages, manifest: str) -> BatchResult:
    batch = manifest.split("/")[1]
    fake.note("publish", batch)
    fake.state = "published"
    staged = (
        StagedTable("shop", "orders", "x", 1, 2, 0),
        StagedTable("shop__cdc", "orders__changes", "x", 3, 4, 0),
    )
    table = TableResult("public.orders", "shop.orders", Counts(read=1, applied=1), staged)
    return BatchResult("shop", batch, "a1", (table,))
