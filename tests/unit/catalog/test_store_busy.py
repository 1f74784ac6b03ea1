"""A catalog or store that fails for one batch of a run: the others are loaded all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import RESTError
from sqlalchemy.exc import OperationalError

from sluice.errors import SluiceError, TerminalError, TransientError
from sluice.ledger.states import FAILED, LANDED
from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.context import Context
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog
BATCHES = ("b1", "b2")
DENIED = "When reading key 'x' in bucket 'w': AWS Error ACCESS_DENIED during GetObject"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("AWS Error SLOW_DOWN during HeadObject operation"), TransientError),
        (OperationalError("SELECT 1", {}, Exception("connection refused")), TransientError),
        (RESTError("500"), TransientError),
        (OSError(DENIED), TerminalError),
    ],
)
def test_one_failed_request_does_not_keep_the_other_batches_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[SluiceError]
) -> None:
    keys = [context.files.write_manifest(Manifest("shop", batch, ())) for batch in BATCHES]
    for batch in BATCHES:
        context.ledger.batches.record(batch, LANDED)
    tried: list[str] = []

    def load(ctx: Context, key: str) -> None:
        tried.append(key)
        raise error

    monkeypatch.setattr(stages, "load", load)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, type(failure), tried) == ([], kind, keys)
    rows = {row.batch_id: row.state for row in context.ledger.batches.all()}
    assert rows == dict.fromkeys(BATCHES, FAILED)


def test_batch_that_cannot_be_given_up_does_not_keep_the_others_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [context.files.write_manifest(Manifest("shop", batch, ())) for batch in BATCHES]
    tried: list[str] = []

    def fail(_: Context, key: str) -> list[str]:
        tried.append(key)
        raise OSError("AWS Error SLOW_DOWN during HeadObject operation")

    monkeypatch.setattr(stages, "_load_in_turn", fail)
    monkeypatch.setattr(stages, "give_up", fail)
    results, failure = stages.load_and_publish(context, keys)
    assert (results, type(failure)) == ([], TransientError)
    assert tried == [keys[0], "b1", keys[1], "b2"]
