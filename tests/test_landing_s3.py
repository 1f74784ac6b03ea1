"""Landing and the catalog on a real S3 server."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pyarrow as pa
import pytest

from sluice.catalog.client import open_catalog
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig
from sluice.errors import OtherLakeError, TerminalError, TransientError, UnstableFileError
from sluice.landing.inspection import Inspector
from sluice.landing.reading import Reading
from sluice.objects.s3_store import S3Store
from sluice.objects.store import open_store
from sluice.operations.lake_mark import own_ledger
from tests.s3_server import S3Server

pytestmark = pytest.mark.s3
LINES = b'{"a":1}\n{"a":2}\n'


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of the test's own, with the environment that leads to it."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    name = f"b-{os.urandom(6).hex()}"
    boto3.Session().client("s3", endpoint_url=server.endpoint).create_bucket(Bucket=name)
    return name


@pytest.fixture
def store(bucket: str) -> S3Store:
    found = open_store(f"s3://{bucket}/landing/shop")
    assert isinstance(found, S3Store)
    return found


def test_list_is_relative_and_filtered(store: S3Store, bucket: str) -> None:
    for key in ("a.jsonl", "dt=2026-03-01/hr=05/b.jsonl.gz", "c.txt", "_tmp/d.jsonl"):
        store.put(key, LINES)
    store.put("x/", b"")
    open_store(f"s3://{bucket}/landing/shopping").put("e.jsonl", LINES)
    found = {o.key: o for o in store.list("**/*.jsonl*")}
    assert sorted(found) == ["a.jsonl", "dt=2026-03-01/hr=05/b.jsonl.gz"]
    assert found["dt=2026-03-01/hr=05/b.jsonl.gz"].hour == "20260301T05"
    assert found["a.jsonl"].size == len(LINES)
    assert found["a.jsonl"].etag == hashlib.md5(LINES).hexdigest()
    assert found["a.jsonl"].modified.tzinfo is not None
    assert {o.key for o in store.list("**/*.jsonl", hidden=True)} == {"a.jsonl", "_tmp/d.jsonl"}


def test_an_object_that_another_of_its_size_replaced_is_not_taken_for_the_one_listed(
    store: S3Store,
) -> None:
    store.put("a", LINES)
    (found,) = store.list()
    inspector = Inspector(store, store, "s/", Reading())
    assert inspector.inspect(found).file.sha256 == hashlib.sha256(LINES).hexdigest()
    store.put("a", LINES.replace(b"1", b"7"))
    with pytest.raises(UnstableFileError, match="a was written again"):
        inspector.inspect(found)


def test_uploads_that_were_never_completed_go(store: S3Store, bucket: str) -> None:
    names = {"mine": f"{store.prefix}p/staged/half", "others": f"{store.prefix}q/staged/half"}
    for key in names.values():
        store.client.create_multipart_upload(Bucket=bucket, Key=key)

    def there() -> set[str]:
        found = store.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return {upload["Key"] for upload in found}

    store.delete_unfinished("p/", datetime.now(UTC) - timedelta(hours=1))
    assert there() == set(names.values())
    store.delete_unfinished("p/", datetime.now(UTC) + timedelta(hours=1))
    assert there() == {names["others"]}


def test_list_goes_on_after_a_thousand(store: S3Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.put(f"{n:04}", b""), range(1005)))
    assert len(list(store.list())) == 1005
    store.delete_prefix("")
    assert list(store.list()) == []


def test_versions_are_recorded(store: S3Store, bucket: str) -> None:
    store.put("unversioned", b"0")
    assert [o.version_id for o in store.list()] == [""]
    store.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    fresh = open_store(f"s3://{bucket}/landing/shop", versions=True)
    fresh.put("a", b"1")
    (one,) = [o for o in fresh.list() if o.key == "a"]
    fresh.put("a", b"2")
    (two,) = [o for o in fresh.list() if o.key == "a"]
    assert one.version_id
    assert one.version_id != two.version_id
    (plain,) = [o for o in open_store(f"s3://{bucket}/landing/shop").list() if o.key == "a"]
    assert plain == replace(two, version_id="")


def test_put_if_absent(store: S3Store) -> None:
    assert store.put_if_absent("b/manifest.json", b"one")
    assert not store.put_if_absent("b/manifest.json", b"two")
    assert store.get("b/manifest.json") == b"one"


def test_delete_prefix_takes_hidden_names_too(store: S3Store) -> None:
    for key in ("p/b1/_x", "p/b1/y", "p/b10/z"):
        store.put(key, b"")
    store.delete_prefix("p/b1/")
    assert [o.key for o in store.list()] == ["p/b10/z"]


def test_delete_takes_the_named_objects_alone_many_in_a_request(store: S3Store) -> None:
    keys = [f"p/{n:04}" for n in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), [*keys, "p/0000.gz", "_p/0"]))
    requests: list[str] = []
    store.client.meta.events.register(
        "before-call.s3", lambda model, **_: requests.append(model.name)
    )
    store.delete(["p/gone", *keys, "_p/0"])
    assert requests == ["DeleteObjects", "DeleteObjects"]
    assert [o.key for o in store.list(hidden=True)] == ["p/0000.gz"]
    store.delete([])
    store.delete(["p/gone"])


def test_delete_says_why_an_object_stays(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(TerminalError, match=r"/p/a: .*check the bucket's name"):
        open_store(f"s3://{store.bucket}/x").delete(["p/a"])


def test_a_large_stream_goes_in_parts(store: S3Store) -> None:
    content = os.urandom(1 << 20) * 20
    store.put_stream("large", io.BytesIO(content))
    assert hashlib.sha256(store.get("large")).digest() == hashlib.sha256(content).digest()


def test_absent_object_raises_file_not_found(store: S3Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("nothing")


def test_no_bucket_and_wrong_keys_are_for_a_person_to_mend(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TerminalError, match="s3://no-such-bucket/"):
        list(open_store("s3://no-such-bucket/x").list())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(TerminalError, match="check the bucket's name"):
        list(open_store(f"s3://{store.bucket}/x").list())


def test_a_server_that_is_down_is_tried_again(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_S3_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("sluice.objects.s3_store.ATTEMPTS", 1)
    with pytest.raises(TransientError, match="try again"):
        list(open_store(f"s3://{store.bucket}/x").list())


def test_inspect_takes_and_stages(store: S3Store, bucket: str) -> None:
    packed = gzip.compress(LINES)
    store.put("dt=2026-03-01/hr=05/a.jsonl.gz", packed)
    store.put("pretty.json", b'[{"a":1},\n{"a":2}]')
    staging = open_store(f"s3://{bucket}/warehouse/_sluice")
    inspector = Inspector(store, staging, "shop/staged/", Reading())
    direct, staged = (inspector.inspect(o).file for o in store.list())
    assert direct.url == f"s3a://{bucket}/landing/shop/dt=2026-03-01/hr=05/a.jsonl.gz"
    assert direct.sha256 == hashlib.sha256(packed).hexdigest()
    prefix = f"s3a://{bucket}/warehouse/_sluice/"
    assert staged.url.startswith(f"{prefix}shop/staged/")
    assert staging.get(staged.url.removeprefix(prefix)) == LINES


def lake_in(bucket: str, database: Path) -> Project:
    lake = LakeConfig(
        catalog=CatalogConfig(type="jdbc", uri=f"sqlite:///{database}"),
        warehouse=f"s3://{bucket}/warehouse",
    )
    return Project(root=database.parent, lake=lake, spark=SparkConfig(), pipelines={})


def test_tables_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    project = lake_in(bucket, tmp_path / "catalog.db")
    catalog = open_catalog(project)
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1, 2]})
    catalog.create_table("shop.orders", rows.schema).append(rows)
    table = open_catalog(project).load_table("shop.orders")
    assert table.location() == f"s3://{bucket}/warehouse/shop/orders"
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_a_bucket_has_one_lake(
    bucket: str, store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a versioned one whose versions the role may not list."""
    store.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    monkeypatch.delattr(S3Store, "_versions")
    project, other = (lake_in(bucket, tmp_path / name) for name in ("own.db", "other.db"))
    own_ledger(project, open_catalog(project))
    with pytest.raises(OtherLakeError, match=r"own\.db, and the catalog .*other\.db has no ledger"):
        own_ledger(other, open_catalog(other))
    own_ledger(project, open_catalog(project))
    assert [o.key for o in open_store(f"s3://{bucket}/warehouse/sluice").list("*")] == ["lake.json"]
