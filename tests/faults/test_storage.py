"""A whole run on an object store that fails, and on a disk that is full."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.faults.lake import PIPELINE, SLUICE, Contents, Lake, event, finish
from tests.flaky import FATES, Flaky, flaky
from tests.s3_server import S3Server, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.s3, pytest.mark.long]
SHARE = 0.05
ON_S3 = """lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: s3://BUCKET/warehouse
spark: {master: "local[2]", conf: {spark.driver.memory: 1g, spark.sql.shuffle.partitions: "2"}}
"""
LIMIT_BYTES = 1 << 20
MANY = 30_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "s3") as found:
        yield found


@pytest.fixture
def flaky_proxy(server: S3Server) -> Iterator[Flaky]:
    host, _, port = server.endpoint.removeprefix("http://").partition(":")
    with flaky((host, int(port)), share=0.0, seed=11) as found:
        yield found


def on_s3(root: Path, server: S3Server, name: str) -> Lake:
    """The lake of the other tests with landing and warehouse in a bucket."""
    client = boto3.Session().client("s3", endpoint_url=server.endpoint)
    client.create_bucket(Bucket=name)
    lake = Lake.make(root / name)
    lake.land_second_hour()
    for path in (p for p in (lake.root / "landing").rglob("*") if p.is_file()):
        key = f"landing/{path.relative_to(lake.root / 'landing')}"
        client.put_object(Bucket=name, Key=key, Body=path.read_bytes())
    (lake.root / "sluice.yaml").write_text(ON_S3.replace("BUCKET", name))
    pipeline = PIPELINE.replace("url: landing", f"url: s3://{name}/landing")
    (lake.root / "pipelines" / "shop.yaml").write_text(pipeline)
    (lake.root / "data").mkdir()
    return lake


def rows(contents: Contents) -> dict[str, list[str]]:
    """The rows without the columns that name the batch: ETags and times of files
    differ per bucket."""
    targets = {n: r for n, r in contents.rows.items() if n.startswith("shop.")}
    return {n: sorted(_data(row) for row in r) for n, r in targets.items()}


def _data(row: str) -> str:
    return row.partition("'_batch_id'")[0]


def test_a_run_on_a_store_that_fails_ends_as_on_one_that_does_not(
    tmp_path: Path, server: S3Server, flaky_proxy: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    calm = on_s3(tmp_path, server, "calm")
    code, output = calm.command("run", "shop")
    assert code == 0, output
    wanted = rows(calm.contents())

    stormy = on_s3(tmp_path, server, "stormy")
    monkeypatch.setenv("SLUICE_S3_ENDPOINT", f"http://127.0.0.1:{flaky_proxy.port}")
    flaky_proxy.share = SHARE
    runs = [stormy.command("run", "shop")]
    while runs[-1][0] != 0 and len(runs) < 4:
        assert runs[-1][0] == 75, runs[-1][1]
        runs.append(stormy.command("run", "shop"))
    assert runs[-1][0] == 0, runs[-1][1]
    assert set(flaky_proxy.told) == {"", *FATES}
    flaky_proxy.share = 0.0
    assert rows(stormy.contents()) == wanted


def test_a_full_disk_fails_the_run_and_the_next_one_goes_on(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path / "shop")
    assert lake.command("run", "shop")[0] == 0
    before = lake.contents()
    many = (event("c", "orders", 1000 + k, {"id": k, "total": "1.00"}) for k in range(1000, MANY))
    lake.land("dt=2026-03-01/hr=02/many.jsonl", many)
    code, output = finish(_with_full_disk(lake))
    assert code != 0, output
    assert rows(lake.contents()) == rows(before)

    code, output = lake.command("run", "shop")
    assert code == 0, output
    assert len(lake.contents().rows["shop.orders"]) == 40 + MANY - 1000
    assert lake.leftovers() == []


def _with_full_disk(lake: Lake) -> subprocess.Popen[str]:
    """Start a run in which no file can grow beyond the limit."""
    return subprocess.Popen(
        [SLUICE, "run", "shop", "--project", str(lake.root)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ.copy(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES)),
    )  # fmt: skip
