"""A process that dies after any of its commits to the catalog, also between two named points: the
next one completes the undo.

Every run tries some of the commits, `SLUICE_FAULT_SEED` others, `make test-long` all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.ledger.comment_log import CommentStatement, record
from sluice.ledger.states import ROLLED_BACK
from sluice.operations import comments, refolding, stages
from sluice.operations.context import Context
from tests.unit.undo_lake import Killed, an_hour_later, everything, state

pytestmark = pytest.mark.catalog
COMMITS: Final = {"b3": 11, "b1": 22}
"""How many commits the undo of a batch takes: the last one goes back, the first is folded out."""
LEFT: Final = {"b3": [0, 1, 2], "b1": [0, 1, 2, 3, 99]}
DEATHS: Final = [(batch, commits) for batch, most in COMMITS.items() for commits in range(most + 1)]
TRIED: Final = 4


def sample() -> list[Any]:
    chosen = random.Random(os.environ.get("SLUICE_FAULT_SEED", "0")).sample(DEATHS, TRIED)
    return [d if d in chosen else pytest.param(*d, marks=pytest.mark.long) for d in DEATHS]


@contextmanager
def killed_after(commits: int) -> Iterator[Callable[[], bool]]:
    """Let a process die after so many commits; yield whether it did."""
    passed = 0
    real = SqlCatalog.commit_table

    def commit(catalog: SqlCatalog, *args: Any) -> Any:
        nonlocal passed
        passed += 1
        if passed > commits:  # whatever the dead process does about it fails too
            raise Killed
        return real(catalog, *args)

    with pytest.MonkeyPatch.context() as patched, suppress(Killed):
        patched.setattr(SqlCatalog, "commit_table", commit)
        yield lambda: passed > commits


def set_comment(context: Context) -> None:
    """Record a comment on a column, which an undo sets again."""
    statement = CommentStatement("shop", "orders", "0000.2.1", 0, "id", "the key")
    record(context.catalog, "shop", "b2", [statement])
    comments.apply_comments(context)


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize(("batch", "commits"), sample())
def test_an_undo_that_dies_after_any_commit_is_completed(
    context: Context, batch: str, commits: int
) -> None:
    set_comment(context)
    with killed_after(commits) as died:
        refolding.undo_or_refold(context, batch)
    assert died() == (commits < COMMITS[batch])
    an_hour_later()
    stages.reconcile(context)
    refolding.undo_or_refold(context, batch)
    comment = context.catalog.load_table(("shop", "orders")).schema().find_field("id").doc
    found = (everything(context), state(context, batch), comment)
    assert found == ([LEFT[batch]] * 2, ROLLED_BACK, "the key")
    assert context.ledger.unfinished() == []
