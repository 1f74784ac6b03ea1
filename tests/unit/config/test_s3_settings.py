"""A bucket that cannot be asked for a wrong setting: a person has to mend that, no retry does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.catalog.spark import spark_catalog_conf
from sluice.environment import ENV_S3_ENDPOINT
from sluice.errors import ConfigError, TerminalError
from sluice.objects.s3_store import S3Store
from tests.unit.projects import LAKE, SHOP, load

ON_S3 = LAKE.replace("data/warehouse", "s3://bucket/w")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv(ENV_S3_ENDPOINT, "http://127.0.0.1:1")


@pytest.mark.parametrize(
    "endpoint",
    [
        "minio:9000", "minio", "s3://minio", "http://", "http://a:b", "http://u:s3cr3t@minio:9000",
        "http://s3cr3t@minio", "http://minio/?key=s3cr3t", "http://minio#s3cr3t",
    ],
)  # fmt: skip
def test_an_endpoint_that_is_no_server_alone_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """It was a ValueError of a library, in both of them another, or showed its secret in errors."""
    monkeypatch.setenv(ENV_S3_ENDPOINT, endpoint)
    problem = rf"{ENV_S3_ENDPOINT}: expected http\(s\)://host\[:port\]"
    with pytest.raises(ConfigError, match=problem) as refused:
        S3Store("bucket", "").describe("a.json")
    assert "s3cr3t" not in str(refused.value)
    with pytest.raises(ConfigError, match=problem):
        spark_catalog_conf(load(tmp_path, ON_S3, shop=SHOP))


@pytest.mark.parametrize(
    ("bucket", "environment"),
    [
        ("bucket", {"AWS_PROFILE": "nobody"}),
        ("bucket", {"AWS_ACCESS_KEY_ID": "AKIA"}),
        ("a bucket", {}),
    ],
)
def test_settings_that_the_s3_client_refuses_are_a_terminal_error(
    monkeypatch: pytest.MonkeyPatch, bucket: str, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TerminalError, match="check the bucket's name, region and keys"):
        S3Store(bucket, "").describe("a.json")
