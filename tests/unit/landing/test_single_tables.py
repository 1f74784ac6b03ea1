"""What a run for some tables reads: no more than other runs would, at the epoch that it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import app
from sluice.landing import inspection
from sluice.ledger.files import Files
from sluice.ledger.states import PUBLISHED, ROLLED_BACK
from sluice.operations.context import Context, open_context
from sluice.operations.held_files import release
from sluice.operations.read_ahead import read_ahead, warn_of_read_ahead
from sluice.operations.selection import Selection
from sluice.operations.undo import undo_batch
from sluice.positions import arrival_of
from spark_jobs.job import pipeline_for
from tests.all_readable import land, land_tables
from tests.unit.fake_loads import TWO_TABLES, load, loaded_two_tables, write_event
from tests.unit.outages import away, failing

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    return loaded_two_tables(tmp_path, messages.append)


def taken(context: Context) -> list[tuple[int, list[str]]]:
    """The files of each batch that a run for one table makes, and the epoch it decodes them at."""
    found = []
    for key in land_tables(context, Selection(tables=("s.notes",))):
        manifest = context.files.read_manifest(key)
        epoch = pipeline_for(context.project, manifest).epoch
        found.append((epoch, [file.key for file in manifest.files]))
    return found


def test_loaded_and_free_files_are_read_as_one_batch(context: Context) -> None:
    write_event(context, "b.jsonl", "second")
    assert taken(context) == [(0, ["a.jsonl", "b.jsonl"])]


def test_the_quiet_period_is_for_files_that_no_batch_has(
    context: Context, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later run would read a loaded file for the table. What the ledger has is read once."""
    write_event(context, "b.jsonl", "second")
    path = context.project.root / "pipelines" / "shop.yaml"
    path.write_text(TWO_TABLES.replace("url: landing", "url: landing, quiet_seconds: 3600"))
    quiet = open_context(context.project.root, "shop", messages.append)
    known, reads = Files.known, []
    monkeypatch.setattr(Files, "known", lambda self: reads.append(self) or known(self))
    assert taken(quiet) == [(0, ["a.jsonl"])]
    assert len(reads) == 1
    assert messages[-2].startswith("land: 1 file, such as b.jsonl, changed less than 3600 s ago")


def test_targets_in_another_place_are_filled_although_the_old_ones_were(context: Context) -> None:
    (key,) = land_tables(context, Selection(tables=("s.notes",)))
    filled = context.files.read_manifest(key).batch_id
    context.ledger.batches.record(filled, PUBLISHED)
    assert taken(context) == []
    path = context.project.root / "pipelines" / "shop.yaml"
    path.write_text(TWO_TABLES.replace("namespace: shop", "namespace: other"))
    assert taken(open_context(context.project.root, "shop")) == [(0, ["a.jsonl"])]


def test_loaded_files_keep_their_epoch_after_it_was_raised(context: Context) -> None:
    path = context.project.root / "pipelines" / "shop.yaml"
    path.write_text(TWO_TABLES + "epoch: 1\n")
    raised = open_context(context.project.root, "shop")
    write_event(raised, "b.jsonl", "second")
    assert taken(raised) == [(0, ["a.jsonl"]), (1, ["b.jsonl"])]


def test_a_raised_epoch_warns_of_files_that_were_read_for_one_table_alone(
    context: Context, messages: list[str]
) -> None:
    """Loaded at the new epoch, rows of a table without a key would be there twice."""
    root = context.project.root
    path = root / "pipelines" / "shop.yaml"

    def warned(epochs: str) -> list[str]:
        path.write_text(TWO_TABLES + epochs)
        messages.clear()
        warn_of_read_ahead(root, "shop", messages.append)
        return list(messages)

    write_event(context, "b.jsonl", "second")
    (key,) = land_tables(context, Selection(tables=("s.notes",)))
    batch = context.files.read_manifest(key).batch_id
    assert warned("epoch: 1\n") == []  # nothing of it is published
    context.ledger.batches.record(batch, PUBLISHED)
    (line,) = warned("epoch: 1\n")
    assert f"{batch} read 1 file, such as b.jsonl, for s.notes alone" in line
    assert line.endswith(f"before that run: sluice rollback shop --batch {batch}")
    full_load = "full_loads: [{epoch: 1, at: '2026-01-01T00:00:00Z'}]\n"
    assert warned(f"epoch: 1\n{full_load}") == []
    assert warned("") == []
    done = CliRunner().invoke(app, ["raise-epoch", "shop", "--project", str(root)])
    assert done.exit_code == 0
    raised, told = (done.output.index(text) for text in ("shop: epoch 1", "such as b.jsonl, for"))
    assert raised < told  # raised is raised, though nobody waits for the look
    load(context)
    assert warned("epoch: 1\n") == []


def test_a_file_whose_bytes_another_one_had_counts_as_loaded(context: Context) -> None:
    """Both were read for one table; then a run loads the one, and knows the other by it."""
    write_event(context, "b.jsonl", "second")
    (key,) = land_tables(context, Selection(tables=("s.notes",)))
    context.ledger.batches.record(context.files.read_manifest(key).batch_id, PUBLISHED)
    write_event(context, "a-copy.jsonl", "second")
    load(context)
    path = context.project.root / "pipelines" / "shop.yaml"
    path.write_text(TWO_TABLES + "epoch: 1\n")
    assert context.ledger.files.copies().keys() == {"b.jsonl"}
    assert read_ahead(open_context(context.project.root, "shop")) == []
    (row,) = context.ledger.files.of_keys({"a-copy.jsonl"})
    context.ledger.batches.record(row.batch_id, ROLLED_BACK)  # loaded again at the new epoch
    assert len(read_ahead(open_context(context.project.root, "shop"))) == 1


def test_a_raised_epoch_says_that_it_could_not_look_for_such_files(
    context: Context, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.operations.read_ahead.open_context", failing(1, away()))
    warn_of_read_ahead(context.project.root, "shop", messages.append)
    assert messages[-1].startswith("raise-epoch: it is unknown whether runs for single tables")


def test_held_files_are_not_read_until_they_are_released(context: Context) -> None:
    write_event(context, "b.jsonl", "second")
    (key,) = land(context)
    batch = context.files.read_manifest(key).batch_id
    undo_batch(context, batch)
    assert taken(context) == [(0, ["a.jsonl"])]
    release(context, batch)
    assert taken(context) == [(0, ["a.jsonl", "b.jsonl"])]


@pytest.mark.parametrize("text", ["other bytes", "of as"])
def test_a_file_that_was_replaced_since_it_was_loaded_is_not_read(
    context: Context, messages: list[str], text: str
) -> None:
    """Of as many bytes it is seen when it is read."""
    write_event(context, "a.jsonl", text)
    assert taken(context) == []
    assert any("a.jsonl" in line and "sluice run shop --changed" in line for line in messages)


def test_loaded_files_that_were_copied_to_another_landing_place_are_read(context: Context) -> None:
    """Under another ETag, which a folder makes of the time, the bytes are known by checksum."""
    root = context.project.root
    (root / "moved").mkdir()
    (root / "moved" / "a.jsonl").write_bytes((root / "landing" / "a.jsonl").read_bytes())
    path = root / "pipelines" / "shop.yaml"
    path.write_text(TWO_TABLES.replace("url: landing", "url: moved") + "epoch: 1\n")
    assert taken(open_context(root, "shop")) == [(0, ["a.jsonl"])]


def test_the_bytes_of_another_file_are_not_read_again(context: Context) -> None:
    for name in ("c.jsonl", "b.jsonl"):
        write_event(context, name, "first" if name == "c.jsonl" else "second")
    write_event(context, "d.jsonl", "second")
    assert taken(context) == [(0, ["a.jsonl", "b.jsonl"])]


def test_moved_loaded_file_is_reported_with_its_former_name(
    context: Context, messages: list[str]
) -> None:
    """Under another name it would have another place and epoch, and unread its rows are missing."""
    write_event(context, "b.jsonl", "first")
    assert taken(context) == [(0, ["a.jsonl"])]
    assert not [line for line in messages if "were moved" in line]
    (context.project.root / "landing" / "a.jsonl").unlink()
    assert taken(context) == []
    assert messages[-1] == (
        "land: not read: 1 file, such as b.jsonl, with the bytes of loaded files that are gone, "
        "such as a.jsonl: where they were moved, move them back for this run"
    )


def test_a_loaded_file_is_read_at_the_place_that_its_events_have(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier release gave it: numbers that are written otherwise shared one."""
    write_event(context, "part-01.jsonl", "second")
    with monkeypatch.context() as earlier:
        earlier.setattr(inspection, "arrival_of", lambda _: "part-011.jsonl")
        load(context)
    write_event(context, "part-02.jsonl", "third")
    (key,) = land_tables(context, Selection(tables=("s.notes",)))
    found = {file.key: file.arrival for file in context.files.read_manifest(key).files}
    assert found["part-01.jsonl"] == "part-011.jsonl"
    assert found["part-02.jsonl"] == arrival_of("part-02.jsonl")
