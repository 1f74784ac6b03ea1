"""Objects of a local store: which there are, their hours, and how they are put and deleted."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, Never

import pytest
from botocore.exceptions import ClientError

from sluice.errors import TerminalError, TransientError
from sluice.globs import Glob, is_hidden
from sluice.objects.s3_store import S3Store
from sluice.objects.store import StoredObject, open_store
from sluice.operations.selection import hour_start
from tests.unit.landing_folders import LINES, Lake


@pytest.mark.parametrize(
    ("key", "hour"),
    [
        ("dt=2026-03-01/hr=05/a", "20260301T05"),
        ("topic/dt=2026-03-01/hr=5/a", "20260301T05"),
        ("topic/dt=2026-03-01/hour=23/a", "20260301T23"),
        ("dt=2026-13-01/hr=05/a", "20260704T11"),
        ("dt=2026-03-01/hr=24/a", "20260704T11"),
        ("dt=0001-01-01/hr=00/a", "00010101T00"),
        ("dt=0000-01-01/hr=00/a", "20260704T11"),
        ("dt=2026-03-01/a", "20260704T11"),
        ("xdt=2026-03-01/hr=05/a", "20260704T11"),
    ],
)
def test_hour_of_an_object_from_its_key_or_time(key: str, hour: str) -> None:
    modified = datetime(2026, 7, 4, 11, 59, tzinfo=UTC)
    assert StoredObject(key, 1, "", "", modified).hour == hour


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("**/*.jsonl*", ["a.jsonl", "x/a.jsonl.gz", "x/y/a.jsonl"], ["a.json", "x/a.avro"]),
        ("**/*", ["a", "x/a", "x//a"], []),
        ("*.json", ["a.json"], ["x/a.json"]),
        ("x/**", ["x/a", "x/y/a"], ["a", "xx/a"]),
        ("dt=*/hr=0?/[ab]*", ["dt=1/hr=01/a", "dt=1/hr=02/bc"], ["dt=1/hr=10/a", "dt=1/hr=01/c"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
        ("[!x]*", ["a"], ["x"]),
        ("a**/b", ["ab", "ax/b", "a/x/b"], ["aab", "b"]),
        ("**/*_*_*.json", ["a_b_c.json", "x/__.json"], ["a_b.json", "a_/b_c.json"]),
    ],
)
def test_glob_patterns_match_whole_keys(
    pattern: str, matches: list[str], others: list[str]
) -> None:
    found = Glob(pattern)
    assert [key for key in matches if not found.matches(key)] == []
    assert [key for key in others if found.matches(key)] == []


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("a/**/*/*_/b/*.json", "a/" + "_/b/" * 250),
        ("**/*" + "_" * 99 + "x", "_" * 1024),
        ("**/*_*_*_*.json", "_" * 700),
        ("**?" * 9 + "X", "_" * 60),
    ],
)
def test_a_key_takes_time_by_its_length(pattern: str, key: str) -> None:
    """A key may be divided among the stars in very many ways."""
    started = time.process_time()
    assert not Glob(pattern).matches(key)
    assert time.process_time() - started < 1


def test_names_of_one_kind_take_little_time() -> None:
    """A landing folder is listed in every run, and may hold a million keys."""
    keys = [f"topic/dt=2026-03-01/hr=05/part-{i:08}.c000.snappy.json.gz" for i in range(10_000)]
    found, by_regex = Glob("**/*.json.gz"), re.compile(r"(?:[^/]*/)*[^/]*\.json\.gz")
    assert seconds(found.matches, keys) < 8 * seconds(by_regex.fullmatch, keys)


def seconds(matches: Callable[[str], object], keys: list[str]) -> float:
    """Of three times, the shortest that it takes to match all keys."""

    def once() -> float:
        started = time.process_time()
        assert all(map(matches, keys))
        return time.process_time() - started

    return min(once() for _ in range(3))


@pytest.mark.parametrize("pattern", ["**/*a", "a/*/a?", "**/a/*", "*a/**/*.a", "*/*", "?*", "**/"])
def test_a_glob_of_one_way_matches_as_others_do(pattern: str) -> None:
    """With a range in it, the same glob is matched as an automaton."""
    keys = ["".join(key) for n in range(7) for key in product("a./\n", repeat=n)]
    other = Glob(pattern + "[x]")
    assert [k for k in keys if Glob(pattern).matches(k) != other.matches(k + "x")] == []


def test_hidden_names_are_left_alone(lake: Lake) -> None:
    for key in ("a", "x/b", "_tmp/c", "x/.d", "_SUCCESS", "_day=1/e"):
        lake.landing.put(key, b"1")
    assert sorted(o.key for o in lake.landing.list()) == ["_day=1/e", "a", "x/b"]
    assert is_hidden("x/_y/z")
    assert is_hidden("x/y.json._COPYING_")
    assert not is_hidden("x/COPYING_")


@pytest.mark.parametrize(
    "pattern",
    ["**/*", "*", "a/*", "a/**/*", "a/b/*", "a/b*", "a/b*/*", "a/b/c", "a", "[a]/*", "a/?/*",
     "a//b/*", "./a/*", "../lake/a/*", "/a/*", "_a/*", "a/.b/*", "link/*", "a/c/*", "none/*"],
)  # fmt: skip
def test_a_glob_with_a_folder_finds_what_matches_of_the_whole_store(
    lake: Lake, pattern: str
) -> None:
    keys = ("a/b/c", "a/b/d/e", "a/bc/d", "a/c", "a/.b/c", "_a/b", "b/a", "a.b", "ab/c")
    for key in keys:
        lake.landing.put(key, b"1")
    (lake.landing.folder / "link").symlink_to(lake.landing.folder / "a")
    for hidden in (True, False):
        wanted = {key for key in keys if Glob(pattern).matches(key) and hidden >= is_hidden(key)}
        found = [o.key for o in lake.landing.list(pattern, hidden=hidden)]
        assert sorted(found) == sorted(wanted)


def test_folders_that_a_glob_does_not_lead_to_are_not_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders of all batches are beside that of the staged files, which each load lists."""
    for key in ("p/staged/a", "p/staged/x/b", "p/b1/m", "q/staged/c", "p/staged2/d"):
        lake.staging.put(key, b"1")
    scandir, read = os.scandir, []

    def noted(path: str) -> Any:
        read.append(Path(path).relative_to(lake.staging.folder).as_posix())
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert [o.key for o in lake.staging.list("p/staged/*")] == ["p/staged/a"]
    assert read == [".", "p", "p/staged", "p/staged/x"]


def test_links_out_of_the_folder_are_no_objects(lake: Lake, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    lake.landing.put("real", LINES)
    (lake.landing.folder / "out").symlink_to(outside)
    (lake.landing.folder / "in").symlink_to(lake.landing.folder / "real")
    assert sorted(o.key for o in lake.landing.list()) == ["in", "real"]
    with pytest.raises(TerminalError, match="leads out of"):
        lake.landing.get("out")
    with pytest.raises(TerminalError, match="leads out of"):
        lake.landing.put("../outside", b"")


def test_changed_file_has_another_etag(lake: Lake) -> None:
    lake.landing.put("a", b"1")
    (before,) = lake.landing.list()
    path = lake.landing.folder / "a"
    path.write_bytes(b"2")
    os.utime(path, ns=(1, 1_000_000_000))
    (after,) = lake.landing.list()
    assert before.etag != after.etag
    assert after.modified == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "hour"),
    [
        (253_402_300_800, "99991231T23"),
        (1 << 60, "99991231T23"),
        (-46_388_678_400, "10000101T00"),
        (-(1 << 60), "10000101T00"),
    ],
)
def test_a_file_of_a_time_that_no_calendar_has_is_of_the_nearest(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, seconds: int, hour: str
) -> None:
    """One such file, as a broken clock or a copy leaves it, stopped its pipeline."""
    lake.landing.put("a", b"1")
    stat = Path.stat

    def fake_stat(path: Path, **more: Any) -> os.stat_result:
        found = stat(path, **more)
        times = {"st_mtime": float(seconds), "st_mtime_ns": seconds * 1_000_000_000}
        return os.stat_result(found[:10], times)

    monkeypatch.setattr(Path, "stat", fake_stat)
    (found,) = lake.landing.list()
    assert found.hour == hour
    assert f"{hour_start(found.hour):%Y%m%dT%H}" == hour


def test_an_hour_is_parsed_once() -> None:
    """A folder of years has few hours and many files."""
    assert hour_start("20260301T05") is hour_start("".join(("20260301", "T05")))


def test_put_if_absent(lake: Lake) -> None:
    assert lake.staging.put_if_absent("b/manifest.json", b"one")
    assert not lake.staging.put_if_absent("b/manifest.json", b"two")
    assert lake.staging.get("b/manifest.json") == b"one"
    assert [p.name for p in (lake.staging.folder / "b").iterdir()] == ["manifest.json"]


def test_delete_prefix(lake: Lake) -> None:
    for key in ("p/b1/m", "p/b1/staged/x", "p/b10/m"):
        lake.staging.put(key, b"")
    lake.staging.delete_prefix("p/b1/")
    assert [o.key for o in lake.staging.list()] == ["p/b10/m"]
    lake.staging.delete_prefix("p/b1")
    assert list(lake.staging.list()) == []
    lake.staging.delete_prefix("nothing/")


def test_delete_takes_the_named_objects_alone(lake: Lake) -> None:
    for key in ("p/a[1].csv", "p/a[1].csv.gz", "p/a1.csv", "p/_b"):
        lake.staging.put(key, b"")
    lake.staging.delete(["p/gone", "gone/x", "p/a[1].csv", "p/_b"])
    assert [o.key for o in lake.staging.list(hidden=True)] == ["p/a1.csv", "p/a[1].csv.gz"]
    with pytest.raises(TerminalError, match="leads out of"):
        lake.staging.delete(["../landing/x"])


def test_an_object_that_cannot_be_deleted_is_an_error(lake: Lake) -> None:
    lake.staging.put("p/folder/x", b"")
    with pytest.raises(OSError, match="folder"):
        lake.staging.delete(["p/folder"])
    assert [o.key for o in lake.staging.list()] == ["p/folder/x"]


def test_of_a_write_that_fails_nothing_is_left(lake: Lake) -> None:
    class Endless(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.ENOSPC, "No space left on device")
            self.seek(1)
            return b"x"

    with pytest.raises(OSError, match="No space left"):
        lake.staging.put_stream("p/staged/a.jsonl", Endless())
    assert [path for path in lake.staging.folder.rglob("*") if path.is_file()] == []


def test_a_folder_that_may_not_be_read_is_not_empty(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> Never:
        raise PermissionError(13, "Permission denied", "closed")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        list(lake.landing.list())


def test_files_that_vanish_while_a_folder_is_listed_are_left_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a", "b", "x/c"):
        lake.landing.put(key, b"1")
    really = Path.is_file

    def is_there_still(path: Path) -> bool:
        there = really(path)
        if path.name == "b":
            path.unlink()
            shutil.rmtree(path.parent / "x")
        return there

    monkeypatch.setattr(Path, "is_file", is_there_still)
    assert [o.key for o in lake.landing.list()] == ["a"]


def test_what_writers_that_died_left_is_removed_while_others_write(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their temporary files and new folders are there for a moment only."""
    for key in ("p/.put-dead", "p/a/.put-brief", "p/a/.put-new", "p/a/kept", "p/b/.put-dead"):
        lake.staging.put(key, b"1")
    folder, really = lake.staging.folder, Path.stat
    for name in ("p/.put-dead", "p/b/.put-dead"):
        os.utime(folder / name, (0, 0))

    def stat(path: Path, **how: bool) -> os.stat_result:
        if path.name == ".put-brief":
            path.unlink(missing_ok=True)
        return really(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    lake.staging.delete_unfinished("p/", datetime.now(UTC) - timedelta(days=1))
    left = [o.key for o in lake.staging.list("p/**", hidden=True)]
    assert left == ["p/a/.put-new", "p/a/kept"]


def test_an_absent_folder_is_empty(tmp_path: Path) -> None:
    assert list(open_store(str(tmp_path / "none")).list()) == []
    with pytest.raises(FileNotFoundError):
        open_store(str(tmp_path / "none")).get("x")


class _Keeps:
    """A bucket of some objects; `p/b/y` may not be deleted."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def get_bucket_versioning(self, **_: str) -> dict[str, str]:
        return {}

    def get_paginator(self, _: str) -> _Keeps:
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        now = datetime.now(UTC)
        found = [{"Key": key, "Size": 1, "ETag": "e", "LastModified": now} for key in self.keys]
        return [{"Contents": found}]

    def delete_objects(self, **_: object) -> dict[str, Any]:
        return {"Errors": [{"Key": "p/b/y", "Code": "AccessDenied", "Message": "no"}]}


def test_refused_delete_of_an_object_is_a_transient_error() -> None:
    store = S3Store("bucket", "p")
    store.__dict__["client"] = _Keeps("p/b/x", "p/b/y")
    refused = "objects not deleted, such as s3://bucket/p/b/y: AccessDenied: no; try again"
    with pytest.raises(TransientError, match=f"1 of 2 {refused}"):
        store.delete_prefix("b/")
    with pytest.raises(TransientError, match=f"1 of 3 {refused}"):
        store.delete(["b/x", "b/y", "b/z"])


class _SaysNothingOfVersions:
    """A bucket that is asked too often, once it has told of the object."""

    def head_object(self, **_: str) -> dict[str, Any]:
        return {"ContentLength": 1, "ETag": "e", "LastModified": datetime.now(UTC)}

    def get_bucket_versioning(self, **_: str) -> dict[str, str]:
        answer = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
        raise ClientError(answer, "GetBucketVersioning")  # type: ignore[arg-type]


def test_a_bucket_that_is_asked_too_often_is_asked_again() -> None:
    store = S3Store("bucket", "p", versions=True)
    store.__dict__["client"] = _SaysNothingOfVersions()
    with pytest.raises(TransientError, match="s3://bucket/p/a: "):
        store.describe("a")


class _KeepsVersions(_Keeps):
    """A bucket with versions, which the role may not list."""

    def get_bucket_versioning(self, **_: str) -> dict[str, str]:
        return {"Status": "Enabled"}

    def get_paginator(self, operation: str) -> _Keeps:
        if operation == "list_object_versions":
            denied = {
                "Error": {"Code": "AccessDenied"},
                "ResponseMetadata": {"HTTPStatusCode": 403},
            }
            raise ClientError(denied, "ListObjectVersions")  # type: ignore[arg-type]
        return self


def test_versions_are_listed_only_where_they_are_wanted() -> None:
    """So a warehouse needs no right to list them."""
    for versions in (False, True):
        store = S3Store("bucket", "p", versions=versions)
        store.__dict__["client"] = _KeepsVersions("p/x")
        if versions:
            with pytest.raises(TerminalError, match="AccessDenied"):
                list(store.list())
        else:
            assert [(found.key, found.version_id) for found in store.list()] == [("x", "")]


def test_a_folder_made_by_hand_is_no_object() -> None:
    """Consoles make an object of no bytes, called as the folder; also of the landing place."""
    store = S3Store("bucket", "p/b")
    store.__dict__["client"] = _Keeps("p/b/", "p/b/x", "p/b/y/")
    assert [found.key for found in store.list()] == ["x"]
