"""The manifest: read as written, and named by its content alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from sluice.errors import TerminalError
from sluice.manifest import (
    AVRO,
    LandingReject,
    Manifest,
    Reprocess,
    SourceFile,
    name_batch,
    name_by_content,
)
from tests.unit.oldmanifests import inline

FILES = tuple(
    SourceFile(
        key=f"dt=2024-01-02/hr=0{n}/part-{n}.jsonl", url=f"file:///l/{n}", size=n, etag=f"e{n}",
        hour=f"2024010{n}", arrival=f"a{n}",
    )
    for n in range(1, 6)
)  # fmt: skip


def test_manifest_survives_json() -> None:
    rejects = (LandingReject("k", 7, "cut", "AAE="),)
    manifest = Manifest("p", "b", FILES, rejects)
    assert Manifest.from_json(manifest.to_json()) == manifest
    bare = Manifest("p", "b", FILES)
    assert Manifest.from_json(bare.to_json()) == bare


def test_a_reject_of_an_older_manifest_is_one_record() -> None:
    raw = json.loads(Manifest("p", "b", FILES, (LandingReject("k", 7, "cut", ""),)).to_json())
    del raw["rejects"][0]["records"]
    assert Manifest.from_json(json.dumps(raw)).rejects[0].records == 1


def test_the_text_is_the_same_every_time() -> None:
    manifest = Manifest("p", "b", FILES)
    assert Manifest.from_json(manifest.to_json()).to_json() == manifest.to_json()


def test_another_version_is_refused() -> None:
    text = json.dumps({**json.loads(Manifest("p", "b", ()).to_json()), "version": 2})
    with pytest.raises(TerminalError, match="version 2, not 1: another release"):
        Manifest.from_json(text)


def test_a_key_of_a_newer_release_is_ignored() -> None:
    manifest = Manifest("p", "b", FILES, reprocess=Reprocess(("b1",), 3))
    newer = json.loads(manifest.to_json())
    for part in (newer, newer["files"][0], newer["reprocess"]):
        part["newer"] = 1
    assert Manifest.from_json(json.dumps(newer)) == manifest


def test_the_name_follows_from_pipeline_and_files_in_any_order() -> None:
    name = name_batch("p", FILES)
    shuffled = list(FILES)
    random.Random(7).shuffle(shuffled)
    assert name_batch("p", tuple(shuffled)) == name
    assert name.startswith("20240105-")
    assert name_batch("other", FILES) != name
    assert name_batch("p", FILES[:-1]) != name


@pytest.mark.parametrize("change", [{"size": 99}, {"etag": "x"}, {"version_id": "v"}, {"key": "k"}])
def test_another_object_gives_another_name(change: dict[str, object]) -> None:
    changed = (replace(FILES[0], **change), *FILES[1:])  # type: ignore[arg-type]
    assert name_batch("p", changed) != name_batch("p", FILES)


@pytest.mark.parametrize("change", [{"url": "s3a://b/k"}, {"staged": True}, {"arrival": "z"}])
def test_where_a_copy_lies_does_not_rename_the_batch(change: dict[str, object]) -> None:
    changed = (replace(FILES[0], **change), *FILES[1:])  # type: ignore[arg-type]
    assert name_batch("p", changed) == name_batch("p", FILES)


def test_without_hours_the_name_is_the_digest_alone() -> None:
    assert len(name_batch("p", (SourceFile("k", "file:///k", 1),))) == 12


def test_a_reprocess_is_named_by_all_but_its_reason() -> None:
    again = Manifest("p", "", FILES, reprocess=Reprocess(("b1",), 3, reason="x"))
    name = name_by_content(again)
    assert name != name_batch("p", FILES)
    assert name_by_content(replace(again, reprocess=Reprocess(("b1",), 3, reason="y"))) == name
    assert name_by_content(replace(again, reprocess=Reprocess(("b2",), 3))) != name
    read_otherwise = replace(again, rejects=(LandingReject("a", 1, "cut", ""),))
    assert name_by_content(read_otherwise) != name


def test_a_manifest_from_before_reprocess_is_read() -> None:
    old = json.loads(Manifest("p", "b", FILES).to_json())
    del old["reprocess"]
    assert Manifest.from_json(json.dumps(old)) == Manifest("p", "b", FILES)
    again = Manifest("p", "b", FILES, reprocess=Reprocess(("b1",), 3), epoch=2)
    assert Manifest.from_json(again.to_json()) == again


def test_a_window_that_an_older_manifest_may_have_is_left_out() -> None:
    old = json.loads(Manifest("p", "b", FILES).to_json())
    assert old.pop("window") is None
    for window in ({}, {"window": ["2024-01-01T00", "2024-01-02T00"]}):
        assert Manifest.from_json(json.dumps({**old, **window})) == Manifest("p", "b", FILES)


def test_a_batch_that_repeats_others_has_the_id_of_earlier_releases() -> None:
    share = Manifest("p", "", (SourceFile("a", "file:///a", 1),), tables=("orders",))
    assert name_by_content(share) == "db897e4ead0c"


def test_the_epoch_of_an_older_reprocess_is_read_from_where_it_was() -> None:
    now = Manifest("p", "b", FILES, reprocess=Reprocess(("b1",), 3), epoch=2)
    raw = json.loads(now.to_json())
    del raw["epoch"]
    raw["reprocess"]["epoch"] = 2
    assert Manifest.from_json(json.dumps(raw)) == now


SCHEMA = '{"type": "record", "name": "r\u00e9", "fields": []}'


def of_avro(count: int, schema: str = SCHEMA) -> Manifest:
    files = (
        SourceFile(f"k{n}", f"file:///{n}", n, container=AVRO, avro_schema=schema)
        for n in range(count)
    )
    return Manifest("p", "", (*files, SourceFile("k9", "file:///9", 9)))


def test_a_schema_is_stored_and_held_once() -> None:
    few, many = (of_avro(n, "x" * 100_000) for n in (1, 9))
    assert len(many.to_json()) < len(few.to_json()) + 10_000
    read = Manifest.from_json(many.to_json())
    assert read == many
    assert len({id(file.avro_schema) for file in read.files[:-1]}) == 1


def test_schemas_in_each_file_of_an_older_manifest_are_read_and_held_once() -> None:
    read = Manifest.from_json(inline(of_avro(3)))
    assert read == of_avro(3)
    assert len({id(file.avro_schema) for file in read.files[:-1]}) == 1


def test_where_its_schemas_are_stored_does_not_rename_a_batch() -> None:
    again = replace(of_avro(3), reprocess=Reprocess(("b1",), 3))
    assert name_by_content(again) == "f3838786be56"
    assert name_by_content(again, "shop", "t") == "6f4ad77217d7"


def test_a_share_repeats_nothing() -> None:
    """No other batch loads its tables from these files."""
    of_tables = Manifest("p", "b", FILES, tables=("t",))
    assert of_tables.repeats
    assert not replace(of_tables, share_of="b0").repeats
