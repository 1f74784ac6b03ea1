"""An object store that is busy, slow, resets connections and cuts answers off."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
from pyiceberg.io import load_file_io

from sluice.catalog.client import open_catalog
from sluice.catalog.failures import is_of_content, is_permanent
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig
from sluice.errors import FileDeniedError, FilesUnreadError, TransientError
from sluice.objects.s3_store import S3Store
from sluice.objects.store import open_store
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.selection import EVERYTHING
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from tests.all_readable import land
from tests.flaky import Flaky, flaky
from tests.s3_server import S3Server
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.s3
OBJECTS = {f"{n}.jsonl": os.urandom(100_000) for n in range(6)}


@pytest.fixture
def flaky_proxy(server: S3Server) -> Iterator[Flaky]:
    host, _, port = server.endpoint.removeprefix("http://").partition(":")
    with flaky((host, int(port)), share=0.0, seed=7) as found:
        yield found


@pytest.fixture
def store(server: S3Server, flaky_proxy: Flaky, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """A folder of a bucket of the test's own, reached through the proxy."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"b-{os.urandom(6).hex()}"
    boto3.Session().client("s3", endpoint_url=server.endpoint).create_bucket(Bucket=bucket)
    monkeypatch.setenv("SLUICE_S3_ENDPOINT", f"http://127.0.0.1:{flaky_proxy.port}")
    found = open_store(f"s3://{bucket}/landing")
    assert isinstance(found, S3Store)
    return found


def read(store: S3Store, key: str) -> bytes:
    with store.open(key) as body:
        return body.read()


def read_with_retries(action: Callable[[], bytes]) -> bytes:
    """What is read when it is tried again, as the next run does."""
    for _ in range(5):
        try:
            return action()
        except TransientError:
            continue
    raise AssertionError("failed five times")


def test_objects_are_whole_on_a_flaky_store(store: S3Store, flaky_proxy: Flaky) -> None:
    flaky_proxy.share = 0.4
    for key, content in OBJECTS.items():
        store.put(key, content)
    assert not store.put_if_absent("0.jsonl", b"another")
    assert {o.key: o.size for o in store.list()} == {k: len(c) for k, c in OBJECTS.items()}
    for key, content in OBJECTS.items():
        found = read_with_retries(lambda key=key: read(store, key))  # type: ignore[misc]
        assert hashlib.sha256(found).digest() == hashlib.sha256(content).digest()
    assert len(flaky_proxy.told) > 2


def test_request_that_fails_each_time_is_a_transient_error(
    store: S3Store, flaky_proxy: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"1")
    monkeypatch.setattr("sluice.objects.s3_store.ATTEMPTS", 2)
    flaky_proxy.share, flaky_proxy.fates = 1.0, ("reset",)
    for action in (lambda: list(store.list()), lambda: store.put("b", b"2")):
        with pytest.raises(TransientError, match=rf"s3://{store.bucket}/.*Connection was closed"):
            action()


def test_a_conditional_write_that_meets_another_is_sent_again(
    store: S3Store, flaky_proxy: Flaky
) -> None:
    """S3 answers 409 where a delete or another write of the key is under way."""
    flaky_proxy.conflicts = 2
    assert store.put_if_absent("a", b"1")
    flaky_proxy.conflicts = 1
    assert not store.put_if_absent("a", b"2")
    assert (store.get("a"), flaky_proxy.conflicts) == (b"1", 0)


def test_a_conditional_write_that_meets_others_each_time_is_to_be_tried_later(
    store: S3Store, flaky_proxy: Flaky
) -> None:
    flaky_proxy.conflicts = 1000
    with pytest.raises(TransientError, match="ConditionalRequestConflict"):
        store.put_if_absent("a", b"1")


def test_metadata_of_the_catalog_is_read_from_a_busy_store(
    store: S3Store, flaky_proxy: Flaky, tmp_path: Path
) -> None:
    """pyarrow by itself gives up after three requests."""
    store.put("metadata.json", b"{}")
    catalog = CatalogConfig(type="jdbc", uri=f"sqlite:///{tmp_path}/catalog.db")
    lake = LakeConfig(catalog=catalog, warehouse=f"s3://{store.bucket}/landing")
    opened = open_catalog(Project(root=tmp_path, lake=lake, spark=SparkConfig(), pipelines={}))
    location = f"s3://{store.bucket}/landing/metadata.json"
    flaky_proxy.throttled = 4
    files = load_file_io(opened.properties, location)
    assert files.new_input(location).open().read() == b"{}"
    assert flaky_proxy.throttled == 0


@pytest.mark.parametrize("fate", ["busy", "reset", "cut", "denied", "broken", ""])
def test_what_a_store_does_is_told_from_what_a_file_contains(
    server: S3Server, store: S3Store, flaky_proxy: Flaky, fate: str
) -> None:
    """By pyarrow's texts: it has one class for all of them."""
    store.put("page.parquet", damaged_page())
    path = f"{store.bucket}/{store.prefix}page.parquet"
    if fate in ("denied", "broken"):
        setattr(flaky_proxy, fate, "page.parquet" if fate == "denied" else ("page.parquet",))
    elif fate:
        flaky_proxy.share, flaky_proxy.fates = 1.0, (fate,)
    files = S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        endpoint_override=f"127.0.0.1:{flaky_proxy.port}",
        scheme="http",
        region=server.region,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),
    )
    with pytest.raises(OSError, match=r"AWS Error" if fate else r"^(?!.*AWS)") as raised:
        pq.read_table(path, filesystem=files)
    assert type(raised.value) is OSError
    assert is_of_content(raised.value) is (fate == "")
    assert is_permanent(raised.value) is (fate == "denied")


def damaged_page() -> bytes:
    """A Parquet file whose only page is zeros, and whose footer is whole."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(100))}), buffer, use_dictionary=False)
    content = bytearray(buffer.getvalue())
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    size = column.total_compressed_size
    content[column.data_page_offset : column.data_page_offset + size] = bytes(size)
    return bytes(content)


def test_an_object_that_is_denied_says_nothing_of_the_others(
    store: S3Store, flaky_proxy: Flaky
) -> None:
    store.put("a", b"1")
    store.put("b", b"2")
    flaky_proxy.denied = "/landing/b"
    assert {o.key for o in store.list()} == {"a", "b"}
    assert read(store, "a") == b"1"
    with pytest.raises(FileDeniedError, match=r"landing/b: .*AccessDenied.*s3:GetObject"):
        read(store, "b")


@pytest.fixture
def shop(store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A pipeline whose three files are in the bucket; boto3 itself does not try again."""
    monkeypatch.setattr("sluice.objects.s3_store.ATTEMPTS", 1)
    url = f"s3://{store.bucket}/landing"
    context = open_shop(tmp_path, SHOP.replace("{url: landing}", f"{{url: '{url}'}}"))
    for key in ("a.jsonl", "b.jsonl", "c.jsonl"):
        store.put(key, f'{{"op": "{key}"}}\n'.encode())
    return context


def test_an_object_that_fails_each_time_keeps_no_other_from_landing(
    shop: Context, flaky_proxy: Flaky
) -> None:
    flaky_proxy.broken = ("/landing/b.jsonl",)
    unreadable = UnreadableFiles()
    assert keys(shop, stages.land(shop, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    error = files_left_out("shop", unreadable)
    assert isinstance(error, FilesUnreadError)
    assert re.search(r"landing/b\.jsonl: .*InternalError", str(error))
    assert set(shop.ledger.files.known()) == {"a.jsonl", "c.jsonl"}
    flaky_proxy.broken = ()
    assert keys(shop, land(shop)) == ["b.jsonl"]


def test_where_all_objects_fail_nothing_is_claimed(shop: Context, flaky_proxy: Flaky) -> None:
    flaky_proxy.broken = (".jsonl",)
    with pytest.raises(TransientError) as caught:
        stages.land(shop, EVERYTHING, UnreadableFiles())
    assert type(caught.value) is TransientError
    assert shop.ledger.files.known() == {}


def test_an_object_that_was_cut_is_read_in_the_second_try(
    shop: Context, flaky_proxy: Flaky
) -> None:
    flaky_proxy.cut = {"/landing/b.jsonl"}
    assert keys(shop, land(shop)) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert flaky_proxy.cut == set()
