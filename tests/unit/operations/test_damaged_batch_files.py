"""A damaged manifest or result of a batch: what is damaged is said, and how to go on without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import app
from sluice.errors import TerminalError
from sluice.ledger.states import LANDED, ROLLED_BACK
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.result import BatchResult
from tests.unit.projects import open_shop
from tests.unit.undo_lake import state

pytestmark = pytest.mark.catalog

DAMAGED = {
    "not UTF-8": b"\xff",
    "cut": b'{"batch_id": "b',
    "empty": b"",
    "a list": b"[]",
    "null": b"null",
    "another document": b'{"a": 1}',
    "deep": b"[" * 100_000,
}


def overwrite(shop: Context, key: str, content: bytes) -> str:
    """Replace a file of a batch; returns its address."""
    url = shop.files.store.url(key)
    Path(url.removeprefix("file://")).write_bytes(content)
    return url


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_manifest_is_named_with_the_way_on_without_it(
    tmp_path: Path, content: bytes
) -> None:
    shop = open_shop(tmp_path)
    key = shop.files.write_manifest(Manifest("shop", "b1", ()))
    url = overwrite(shop, key, content)
    with pytest.raises(TerminalError) as raised:
        shop.files.read_manifest(key)
    assert str(raised.value).startswith(f"{url} cannot be read (")
    assert "; without one `sluice rollback shop --batch b1`" in str(raised.value)


def test_the_way_on_without_a_manifest_is_one(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    overwrite(shop, shop.files.write_manifest(Manifest("shop", "b1", ())), b"\xff")
    shop.ledger.batches.record("b1", LANDED)
    commands = (["rollback", "shop", "--batch", "b1"], ["release", "shop", "--batch", "b1"])
    for command in commands:
        done = CliRunner().invoke(app, [*command, "--project", str(tmp_path)])
        assert done.exit_code == 0, done.output
    assert state(open_shop(tmp_path), "b1") == ROLLED_BACK


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_result_is_named(tmp_path: Path, content: bytes) -> None:
    shop = open_shop(tmp_path)
    shop.files.write_result(BatchResult("shop", "b1", "a1", ()))
    url = overwrite(shop, "shop/b1/result-a1.json", content)
    with pytest.raises(TerminalError) as raised:
        shop.files.read_result("shop", "b1", "a1")
    assert str(raised.value).startswith(f"{url} cannot be read (")
