"""The address of a live source: what is refused in it, and how the driver gets it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from sluice import cli
from sluice.config.live_source import LiveSource, credentials
from sluice.environment import ENV_SOURCE_PASSWORD, ENV_SOURCE_USER
from sluice.errors import ConfigError

ADDRESS = "jdbc:postgresql://db:5432/shop"


@pytest.mark.parametrize(
    "address",
    [f"{ADDRESS}?user=a&password=hush", "jdbc:postgresql://a:hush@db/shop", "postgresql://db/shop",
     "jdbc:oracle:thin:@db/shop", "jdbc:oracle:thin:u/hush@db", "jdbc:postgresql://u:hush/shop",
     "jdbc:mysql://address=(host=db)(user=u)(password=hush)/shop",
     "jdbc:mysql://(host=db,user=u,password=hush)/shop", "jdbc:mariadb://db/shop;password=hush",
     "jdbc:mariadb:address=(host=db)(password=hush)", "jdbc:mysql://u@(db:1,key=hush)/shop"],
)  # fmt: skip
def test_an_address_that_cannot_be_read_or_shown(address: str) -> None:
    with pytest.raises(ConfigError, match="--source: expected") as raised:
        LiveSource(address)
    assert "hush" not in str(raised.value)


def test_driver_gets_the_whole_address_and_the_report_none_of_its_options() -> None:
    live = LiveSource(f"{ADDRESS}?sslmode=verify-full", datetime(2026, 3, 2, 10, tzinfo=UTC))
    assert live.arguments == (
        "--source", f"{ADDRESS}?sslmode=verify-full", "--watermark", "2026-03-02T10:00:00+00:00",
    )  # fmt: skip
    assert live.shown == ADDRESS
    assert LiveSource(ADDRESS).arguments == ("--source", ADDRESS)


@pytest.mark.parametrize(
    "address",
    ["jdbc:postgresql://db", "jdbc:postgresql://a:5432,b-2:5432/shop?targetServerType=primary",
     "jdbc:postgresql://[::1]:5432/shop", "jdbc:mysql:loadbalance://a,b:3307/my_shop%201",
     "jdbc:postgresql:///shop"],
)  # fmt: skip
def test_every_form_without_room_for_a_secret_is_read(address: str) -> None:
    assert LiveSource(address).arguments == ("--source", address)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_the_other_databases_that_can_be_read(scheme: str) -> None:
    assert LiveSource(f"jdbc:{scheme}://db:3306/?sslMode=verify-full").shown.endswith("//db:3306/")


def test_credentials_are_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_SOURCE_PASSWORD, raising=False)
    monkeypatch.setenv(ENV_SOURCE_USER, "reader")
    assert credentials() == {"user": "reader"}
    monkeypatch.setenv(ENV_SOURCE_PASSWORD, "hush")
    assert credentials() == {"user": "reader", "password": "hush"}


def test_a_watermark_needs_a_source() -> None:
    done = CliRunner().invoke(cli.app, ["verify", "shop", "--watermark", "2026-03-02"])
    assert done.exit_code == ConfigError.exit_code
    assert "--watermark needs --source" in done.output
