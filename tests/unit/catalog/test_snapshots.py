"""Branches of a table, and commits of which no answer comes."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError
from sqlalchemy.exc import InterfaceError, OperationalError

from sluice.catalog.snapshots import drop_branches
from sluice.catalog.table_publish import publish_table
from sluice.errors import CommitStateUnknownError, TerminalError
from sluice.names import branch_name
from tests.unit.staged_tables import NAME, ids, stage, table, write

pytestmark = pytest.mark.catalog


def test_drop_branches_takes_only_those_of_the_batch(catalog: Catalog) -> None:
    write(catalog, 0)
    for batch, attempt in (("b1", "x"), ("b1", "y"), ("b12", "z")):
        stage(catalog, batch, 1, attempt)
    gone = drop_branches(catalog, *NAME, branch_name("b1", ""))
    assert sorted(gone) == [branch_name("b1", "x"), branch_name("b1", "y")]
    assert set(table(catalog).metadata.refs) == {"main", branch_name("b12", "z")}
    assert drop_branches(catalog, *NAME, "main") == []
    assert drop_branches(catalog, "shop", "nothing", "batch_") == []


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("UPDATE iceberg_tables", {}, Exception("server closed the connection")),
        InterfaceError("COMMIT", {}, Exception("connection already closed")),
        requests.ReadTimeout("no answer"),
        requests.ConnectionError("reset"),
        ServiceUnavailableError("503"),
        OSError(28, "No space left on device"),
        OSError("When completing multiple part upload: AWS Error SLOW_DOWN"),
    ],
)
def test_a_commit_without_an_answer_is_unknown(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write(catalog, 1)
    staged = stage(catalog, "b1", 2)

    def lost(*_: object) -> None:
        raise error

    monkeypatch.setattr(catalog, "commit_table", lost)
    with pytest.raises(
        CommitStateUnknownError, match=r"shop\.orders: .* run `sluice reconcile PIPELINE`"
    ) as caught:
        publish_table(catalog, staged, "b1")
    assert "UPDATE" not in str(caught.value)


def test_metadata_that_cannot_be_written_says_whose_they_are(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(catalog, 1)
    staged = stage(catalog, "b1", 2)

    def unknown(*_: object) -> None:
        raise NotImplementedError("variant")

    monkeypatch.setattr(catalog, "commit_table", unknown)
    with pytest.raises(TerminalError, match="take that back there, and run again"):
        publish_table(catalog, staged, "b1")


def test_a_commit_that_happened_all_the_same_is_found_when_it_is_tried_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(catalog, "b1", 1)
    commit = catalog.commit_table

    def break_off(*asked: Any) -> None:
        commit(*asked)
        raise OSError("curlCode: 56, Failure when receiving data from the peer")

    monkeypatch.setattr(catalog, "commit_table", break_off)
    with pytest.raises(CommitStateUnknownError, match="curlCode: 56"):
        publish_table(catalog, staged, "b1")
    at = table(catalog).metadata_location
    publish_table(catalog, staged, "b1")
    assert (ids(catalog), table(catalog).metadata_location) == ([1], at)


def test_a_commit_of_something_else_in_between_refuses_no_publication(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(catalog, "b1", 1)
    commit, refused = catalog.commit_table, []

    def refuse_once(*asked: Any) -> Any:
        if not refused:
            refused.append(asked)
            raise CommitFailedException("the metadata is another meanwhile")
        return commit(*asked)

    monkeypatch.setattr(catalog, "commit_table", refuse_once)
    publish_table(catalog, staged, "b1")
    assert (ids(catalog), len(refused)) == ([1], 1)
