"""What the removal of a failed or finished batch meets hides neither its error nor its result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.exceptions import RESTError

from sluice.errors import TerminalError
from sluice.manifest import Rebuild
from sluice.operations import refolding, sweep, undo
from tests.unit.outages import away, failing
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

REQUEST = Rebuild(("orders",), at="2026-03-02T10:00:00Z")


@pytest.mark.parametrize(
    "met", [OSError("AWS Error SLOW_DOWN during DeleteObject operation"), away(), RESTError("500")]
)
def test_an_error_of_the_removal_does_not_hide_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, met: Exception
) -> None:
    said: list[str] = []
    shop = replace(open_shop(tmp_path), say=said.append)
    monkeypatch.setattr(refolding, "load", failing(1, TerminalError("no key is known")))
    monkeypatch.setattr(undo, "undo_batch", failing(1, met))
    with pytest.raises(TerminalError, match="no key is known"):
        refolding._carry_out(shop, REQUEST)
    assert [line for line in said if "is left to sluice reconcile: " in line] != []


@pytest.mark.parametrize(
    ("met", "why"),
    [
        (away("locked"), "OperationalError: locked"),
        (RESTError("409"), "RESTError: 409"),
        (OSError("disk"), "OSError: disk"),
        (TerminalError("gone"), "gone"),
    ],
)
def test_files_that_cannot_be_removed_do_not_fail_what_they_were_for(
    met: Exception, why: str
) -> None:
    said: list[str] = []
    with sweep.defer_to_maintenance("batch b1", said.append):
        raise met
    assert said == [f"batch b1: files beside the tables are left to maintenance: {why}"]
