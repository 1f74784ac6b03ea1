"""`sluice status`: readable in any width, and of what is undone no advice that is out of date."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console

from sluice.ledger.claims import ClaimRequest
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, FILE_HELD, FILE_RELEASED, LANDED, PUBLISHED, ROLLED_BACK
from sluice.manifest import SourceFile
from sluice.output.status import (
    BatchStatus,
    batch_statuses,
    last_and_waiting,
    show_status,
    status_json,
)
from tests.unit.projects import open_shop

BATCH: Final = "20260302T10-6fbcb278d1fa"
AT: Final = datetime(2026, 3, 2, 10, 20, 30, 456_000, tzinfo=UTC)
ADVICE: Final = (
    "AuditFailedError: 1 check found rows; sluice rollback shop goes on without its files"
)


HELD: Final = SourceFile("held.jsonl", "file:///held.jsonl", 1)


def row(state: str, **more: object) -> BatchRow:
    return BatchRow("shop_postgres", BATCH, "a1", state, at=AT, detail=json.dumps(more))


def printed(rows: list[BatchRow], width: int, held: int = 0, released: int = 0) -> list[str]:
    to = io.StringIO()
    statuses = [
        BatchStatus(row, unresolved=row.details.get("quarantined", 0), held=held, released=released)
        for row in rows
    ]
    show_status(Console(file=to, width=width), statuses)
    return [line.rstrip() for line in to.getvalue().splitlines()]


PUBLISHED_ROW: Final = row(
    PUBLISHED, read=12_345, applied=12_000, quarantined=7,
    newest_source_ts="2026-03-02 09:59:59.123",
)  # fmt: skip


@pytest.mark.parametrize("width", [100, 110, 120])
def test_in_a_narrow_terminal_a_batch_is_a_block(width: int) -> None:
    assert printed([PUBLISHED_ROW, PUBLISHED_ROW], width)[-3:-1] == [
        f"shop_postgres {BATCH} published 2026-03-02 10:20:30",
        "  read 12345, applied 12000, quarantined 7, unresolved 7, newest source time 2026-03-02 "
        "09:59:59",
    ]


@pytest.mark.parametrize("width", [60, 80, 110, 120, 200])
def test_names_and_times_are_whole_in_any_width(width: int) -> None:
    lines = printed([PUBLISHED_ROW], width)
    for whole in ("shop_postgres", BATCH, "published", "2026-03-02 10:20:30"):
        assert any(whole in line for line in lines), whole
    text = " ".join(" ".join(lines).split())
    assert "2026-03-02 09:59:59" in text
    assert ".123" not in text


def test_where_there_is_room_all_is_one_line() -> None:
    (line,) = (line for line in printed([PUBLISHED_ROW], 200) if BATCH in line)
    for text in ("shop_postgres", "2026-03-02 10:20:30", "12345", "2026-03-02 09:59:59"):
        assert text in line


def test_undone_batch_names_its_release_and_shows_its_error_as_past() -> None:
    lines = printed([row(ROLLED_BACK, error=ADVICE)], 200, held=3)
    assert lines[-3:] == [
        f"{BATCH} is undone; 3 files held: sluice release shop_postgres --batch {BATCH}",
        "  before that it had failed:",
        f"  {ADVICE}",
    ]
    assert printed([row(ROLLED_BACK)], 200)[-1] == f"{BATCH} is undone"
    free = "3 files released: the next run takes those that are still there"
    assert printed([row(ROLLED_BACK)], 200, released=3)[-1] == f"{BATCH} is undone; {free}"
    failed = printed([row(FAILED, error=ADVICE)], 200)
    assert failed[-3:-1] == [f"{BATCH} is failed:", f"  {ADVICE}"]


@pytest.mark.parametrize("state", [FAILED, ROLLED_BACK])
def test_commands_within_an_error_are_whole_in_any_width(state: str) -> None:
    """So that they can be pasted; each line of the error is indented, to look like no other."""
    lines = printed([row(state, error=f"{ADVICE}\n{BATCH} is undone")], 60)
    at = lines.index(f"  {ADVICE}")
    assert lines[at + 1] == f"  {BATCH} is undone"


def test_what_waits_for_somebody_has_its_command_once_a_pipeline() -> None:
    failed, open_records = row(FAILED, error=ADVICE), row(PUBLISHED, quarantined=7)
    assert printed([failed, open_records, failed, open_records], 200)[-2:] == [
        "shop_postgres: 2 failed batches; once the cause is gone: sluice run shop_postgres",
        "shop_postgres: 14 records are unresolved; after a fix: sluice reprocess shop_postgres",
    ]
    assert printed([row(FAILED)], 200)[-1].startswith("shop_postgres: 1 failed batch; once the")
    assert "sluice" not in "".join(printed([row(PUBLISHED)], 200))


@pytest.mark.catalog
def test_older_batches_that_wait_for_somebody_are_shown_whatever_the_limit(tmp_path: Path) -> None:
    ledger = open_shop(tmp_path).ledger
    ledger.batches.record("quarantined", PUBLISHED, add_details={"quarantined": 2})
    ledger.batches.record("resolved", PUBLISHED, add_details={"quarantined": 5})
    ledger.files.claim(ClaimRequest((HELD,), lambda _: "undone"))
    ledger.files.mark("undone", FILE_HELD)
    for batch, state in (("undone", ROLLED_BACK), ("free", ROLLED_BACK), ("landed", LANDED)):
        ledger.batches.record(batch, state)
    again = {"reprocessed": ["resolved"]}
    ledger.batches.record("again", PUBLISHED, add_details=again)
    statuses = batch_statuses(ledger)
    shown = last_and_waiting(statuses, limit=1)
    assert [one.row.batch_id for one in shown] == ["again", "landed", "undone", "quarantined"]
    by_batch = {one["batch_id"]: one for one in status_json(statuses)}
    assert (by_batch["undone"]["held_files"], by_batch["free"]["held_files"]) == (1, 0)
    assert (by_batch["resolved"]["unresolved"], by_batch["resolved"]["resolved_by"]) == (0, "again")


@pytest.mark.catalog
def test_a_claim_that_was_never_recorded_waits_too(tmp_path: Path) -> None:
    ledger = open_shop(tmp_path).ledger
    ledger.batches.record("b1", PUBLISHED)
    ledger.files.claim(ClaimRequest((HELD,), lambda _: "b0"))
    first, second = batch_statuses(ledger)
    assert (first.row.batch_id, first.row.state, first.waits) == ("b0", LANDED, True)
    assert second.row.batch_id == "b1"


@pytest.mark.catalog
def test_a_batch_that_is_claimed_again_after_its_release_is_no_more_undone(tmp_path: Path) -> None:
    ledger = open_shop(tmp_path).ledger
    ledger.files.claim(ClaimRequest((HELD,), lambda _: "b0"))
    ledger.files.mark("b0", FILE_HELD)
    ledger.batches.record("b0", ROLLED_BACK)
    assert [one.row.state for one in batch_statuses(ledger)] == [ROLLED_BACK]
    ledger.files.mark("b0", FILE_RELEASED)
    assert [(one.held, one.released, one.waits) for one in batch_statuses(ledger)] == [
        (0, 1, False)
    ]
    ledger.files.claim(ClaimRequest((HELD,), lambda _: "b0"))
    (status,) = batch_statuses(ledger)
    assert (status.row.state, status.held, status.released) == (LANDED, 0, 0)
