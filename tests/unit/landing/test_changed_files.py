"""A run for changed objects: what was replaced since it was loaded is taken once more, if told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.errors import ConfigError, TerminalError
from sluice.ledger import details
from sluice.ledger.states import FILE_CLAIMED, PUBLISHED, PUBLISHING
from sluice.manifest import Manifest
from sluice.operations.context import Context, open_context
from sluice.operations.held_files import release
from sluice.operations.land import candidates
from sluice.operations.reconcile import reconcile
from sluice.operations.reprocess import land_quarantined
from sluice.operations.selection import Selection
from sluice.operations.undo import undo_batch
from sluice.operations.why_nothing import why_nothing
from sluice.positions import arrival_changed, arrival_of
from tests.all_readable import land, land_tables
from tests.unit.fake_driver import quarantine
from tests.unit.fake_loads import load, publish, undo, write_event
from tests.unit.projects import SHOP, open_shop

pytestmark = pytest.mark.catalog

PIPELINE = SHOP + "tables: {s.orders: {key: [id]}}\n"
PLACE = arrival_of("a.jsonl")


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    """A pipeline with two loaded files, of which one has changed since."""
    context = open_shop(tmp_path, PIPELINE, messages.append)
    write_event(context, "a.jsonl", "first")
    write_event(context, "b.jsonl", "other")
    load(context)
    write_event(context, "a.jsonl", "changed")
    return context


def taken(context: Context, changed: bool = False) -> Manifest:
    (key,) = land(context, Selection(changed=changed))
    return context.files.read_manifest(key)


def batch_of(context: Context, name: str) -> str:
    return context.ledger.files.known()[name].batch_id


@pytest.mark.parametrize("tables", [[], ["s.orders"]])
def test_of_many_changed_files_some_are_named(
    context: Context, messages: list[str], tables: list[str]
) -> None:
    """A landing folder that was copied has changed in every file, at every run."""
    for number in range(30):
        write_event(context, f"c{number:02}.jsonl", f"{number}")
    load(context)
    for number in range(30):
        write_event(context, f"c{number:02}.jsonl", f"{number} and more")
    messages.clear()
    if tables:
        land_tables(context, Selection(tables=tuple(tables)))
    else:
        land(context)
    assert len([line for line in messages if "has changed since" in line]) == 20
    assert "land: and 11 more such files" in messages


def test_changed_file_is_reported_with_the_command_that_loads_it(
    context: Context, messages: list[str]
) -> None:
    first = batch_of(context, "a.jsonl")
    assert land(context) == []
    assert f"land: a.jsonl has changed since batch {first} loaded it" in messages[-1]
    assert "sluice run shop --changed" in messages[-1]


def test_a_run_that_leaves_changed_files_alone_does_not_say_that_they_are_loaded(
    context: Context,
) -> None:
    what = (
        "left alone: 1 file, such as a.jsonl, that changed since a file of that name was loaded "
        "(sluice run shop --changed; where landing.url is another place now: docs/operations.md, "
        "Landing in another place)"
    )
    landing = context.pipeline.landing.url
    assert why_nothing(context) == (
        f"{what}, and every other one of {landing} is in the ledger already"
    )
    assert why_nothing(context, Selection(files=("a.jsonl", "b.jsonl"))) == (
        f"{what}, and every other one that was asked for is in the ledger already"
    )
    context.ledger.files.mark(batch_of(context, "a.jsonl"), "held")
    assert "that changed" not in why_nothing(context)


def test_changed_file_is_taken_by_a_run_with_changed(context: Context, messages: list[str]) -> None:
    first = batch_of(context, "a.jsonl")
    (file,) = taken(context, changed=True).files
    assert (file.key, file.replaces) == ("a.jsonl", (first,))
    row = context.ledger.files.known()["a.jsonl"]
    assert (row.state, row.etag, row.sha256) == (FILE_CLAIMED, file.etag, file.sha256)
    assert row.batch_id != first
    assert batch_of(context, "b.jsonl") == first


def test_taken_changed_file_is_neither_reported_nor_taken_again(
    context: Context, messages: list[str]
) -> None:
    manifest = taken(context, changed=True)
    messages.clear()
    assert land(context, Selection(changed=True)) == []
    publish(context.ledger, manifest.batch_id, context.pipeline.epoch)
    assert land(context, Selection(changed=True)) == []
    assert land(context) == []
    assert messages == []


def test_events_of_a_changed_file_rank_above_those_of_the_file_before_it(context: Context) -> None:
    load(context, changed=True)
    write_event(context, "a.jsonl", "once more")
    (file,) = taken(context, changed=True).files
    assert file.arrival == arrival_changed(arrival_changed(PLACE))
    assert len(file.replaces) == 2


def test_new_files_are_batches_of_their_own(context: Context) -> None:
    write_event(context, "c.jsonl", "new")
    made = [context.files.read_manifest(key) for key in land(context, Selection(changed=True))]
    assert [[(f.key, bool(f.replaces)) for f in one.files] for one in made] == [
        [("c.jsonl", False)],
        [("a.jsonl", True)],
    ]


def test_a_changed_file_keeps_the_epoch_that_it_was_loaded_at(context: Context) -> None:
    path = context.project.root / "pipelines" / "shop.yaml"
    path.write_text(PIPELINE + "epoch: 1\n")
    assert taken(open_context(context.project.root, "shop"), changed=True).epoch == 0


def test_epoch_of_a_changed_file_is_fixed_when_it_lands(context: Context) -> None:
    """Loaded by a rerun after `raise-epoch`, what it shares would count a second time."""
    assert taken(context, changed=True).epoch == context.pipeline.epoch == 0


def test_the_same_bytes_written_again_are_not_loaded(context: Context) -> None:
    write_event(context, "a.jsonl", "first")
    assert land(context, Selection(changed=True)) == []


def test_bytes_that_a_changed_file_had_are_known_still(context: Context) -> None:
    first = batch_of(context, "a.jsonl")
    load(context, changed=True)
    write_event(context, "c.jsonl", "first")
    assert land(context) == []
    undo(context.ledger, first)
    assert [file.key for file in taken(context).files] == ["c.jsonl"]


def test_a_file_of_a_batch_that_is_not_published_is_left_to_it(
    context: Context, messages: list[str]
) -> None:
    batch = taken(context, changed=True).batch_id
    write_event(context, "a.jsonl", "once more")
    assert land(context, Selection(changed=True)) == []
    assert f"a.jsonl has changed since batch {batch} took it" in messages[-1]
    assert "rolled back and released" in messages[-1]
    changed = "1 file, such as a.jsonl, changed since landing for a batch "
    assert why_nothing(context).startswith(changed)


def test_a_file_that_another_run_took_since_the_look_is_left_to_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = context.ledger.files.claim

    def after_another(*given: object, **more: object) -> object:
        monkeypatch.undo()
        load(context, changed=True)
        return claim(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(context.ledger.files, "claim", after_another)
    assert land(context, Selection(changed=True)) == []
    assert len(context.ledger.batches.all()) == 2


def test_a_landing_that_was_killed_is_taken_up_as_it_was_decided(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(type(context.ledger.batches), "record", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            land(context, Selection(changed=True))
    (key,) = reconcile(context)
    (file,) = context.files.read_manifest(key).files
    assert (file.key, file.arrival) == ("a.jsonl", arrival_changed(PLACE))


def test_rolled_back_changed_file_is_held_and_once_released_taken_as_changed_again(
    context: Context,
) -> None:
    first = taken(context, changed=True)
    undo_batch(context, first.batch_id)
    assert land(context, Selection(changed=True)) == []
    release(context, first.batch_id)
    assert taken(context) == first


def test_released_without_the_batch_before_it_is_a_file_as_any(context: Context) -> None:
    before, changed = batch_of(context, "a.jsonl"), load(context, changed=True)
    for batch in (before, changed):
        undo(context.ledger, batch)
        release(context, batch)
    manifest = taken(context)
    assert [(f.key, f.arrival, f.replaces) for f in manifest.files] == [
        ("a.jsonl", PLACE, ()),
        ("b.jsonl", arrival_of("b.jsonl"), ()),
    ]


def test_a_file_that_is_put_back_names_no_batch_anew(context: Context) -> None:
    """Its size, ETag and version are those of the first batch again, and the bytes are loaded."""
    path = context.project.root / "landing" / "a.jsonl"
    load(context, changed=True)
    batches = len(context.ledger.batches.all())
    path.write_text('{"op": "first"}\n')
    assert land(context, Selection(changed=True)) == []
    assert len(context.ledger.batches.all()) == batches


@pytest.mark.parametrize("undone", [True, False])
def test_a_file_that_is_put_back_is_again_its_first_batchs(context: Context, undone: bool) -> None:
    """Else no rollback of that one would hold it, and no run for single tables read it."""
    first = batch_of(context, "a.jsonl")
    later = load(context, changed=True)
    if undone:
        undo_batch(context, later)
        release(context, later)
    write_event(context, "a.jsonl", "first")
    assert land(context, Selection(changed=True)) == []
    assert batch_of(context, "a.jsonl") == first
    (key,) = land_tables(context, Selection(tables=("s.orders",)))
    found = {f.key: f.arrival for f in context.files.read_manifest(key).files}
    assert found == {name: arrival_of(name) for name in ("a.jsonl", "b.jsonl")}
    undo_batch(context, first)
    assert land(context) == []
    assert {row.object_key for row in context.ledger.files.held()} == {"a.jsonl", "b.jsonl"}


def test_run_for_some_tables_reads_a_changed_file_at_its_position(context: Context) -> None:
    load(context, changed=True)
    (key,) = land_tables(context, Selection(tables=("s.orders",)))
    found = {f.key: f.arrival for f in context.files.read_manifest(key).files}
    assert found == {"a.jsonl": arrival_changed(PLACE), "b.jsonl": arrival_of("b.jsonl")}


def test_run_for_some_tables_does_not_read_a_changed_file_before_it_is_loaded(
    context: Context, messages: list[str]
) -> None:
    """Its place and its epoch are those of the file before it, which such a run would not know."""
    batch = taken(context, changed=True).batch_id
    for state in ("claimed", "released"):
        (key,) = land_tables(context, Selection(tables=("s.orders",)))
        assert [f.key for f in context.files.read_manifest(key).files] == ["b.jsonl"], state
        assert f"land: a.jsonl of batch {batch} has changed since" in messages[-2]
        if state == "claimed":
            undo_batch(context, batch)
            release(context, batch)


def test_a_file_whose_batch_is_not_published_yet_is_left_to_it(
    context: Context, messages: list[str]
) -> None:
    first = batch_of(context, "a.jsonl")
    context.ledger.batches.record(first, PUBLISHING)
    assert land(context, Selection(changed=True)) == []


def test_records_of_the_file_before_it_are_not_taken_for_read_again(context: Context) -> None:
    for batch in (batch_of(context, "a.jsonl"), load(context, changed=True)):
        bad = {details.EPOCH: 0, details.QUARANTINED: 1}
        context.ledger.batches.record(batch, PUBLISHED, replace_details=bad)
        quarantine(context, batch, "a.jsonl")
    with pytest.raises(TerminalError, match=r"a\.jsonl.*their bytes changed"):
        land_quarantined(context)


def test_manifest_without_changed_files_has_no_new_field(context: Context) -> None:
    """A batch that repeats others is named by its manifest's text."""
    first = context.files.manifest_of("shop", batch_of(context, "b.jsonl"))
    assert "replaces" not in first.to_json()
    assert "replaces" in taken(context, changed=True).to_json()


def test_only_changed_files_that_are_asked_for_are_taken(context: Context) -> None:
    write_event(context, "b.jsonl", "changed too")
    found = candidates(context, Selection(files=("b.jsonl",), changed=True))
    assert [o.key for o in found] == ["b.jsonl"]


def test_changed_is_refused_in_a_run_for_some_tables(context: Context) -> None:
    with pytest.raises(ConfigError, match="--changed"):
        Selection(tables=("s.orders",), changed=True)


def test_a_manifest_is_read_as_it_was_written(context: Context) -> None:
    manifest = taken(context, changed=True)
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert manifest.changed == manifest.files
    assert replace(manifest, files=()).changed == ()
