"""Names and values that would move a cursor or forge a line: they are shown, and do nothing."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from sluice import cli
from sluice.errors import ConfigError, SluiceError, TransientError
from sluice.escaping import LINES, shown
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED
from sluice.operations.maintenance import MaintenanceResult, Step
from sluice.operations.preview import Forecast, Preview, TableForecast
from sluice.output import report, verify_report
from sluice.output.rows import Output, write_rows
from sluice.output.status import BatchStatus, show_status
from sluice.result import BatchResult, Counts, Nulled, StagedTable, TableResult
from sluice.verification import Comparison, Difference, TableReport, Verification
from spark_jobs.driver_messages import emit
from tests.unit.projects import open_shop

HOSTILE = "a\x1b[2J\x9b31m\u202eb\r\nERROR: forged\u2028\x7f\U000e0041[bold]"
HARMLESS = (
    "a\\u001b[2J\\u009b31m\\u202eb\\u000d\\u000aERROR: forged\\u2028\\u007f\\udb40\\udc41[bold]"
)
COUNTS = Counts(read=1, applied=1)


def unseen(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}


def printed(show: Callable[[Console], None]) -> str:
    """What a very wide terminal gets; it must not be told anything but what to show."""
    to = io.StringIO()
    show(Console(file=to, width=2000))
    text = to.getvalue()
    assert unseen(text) == set()
    assert not [line for line in text.splitlines() if line.startswith("ERROR")]
    return text


def test_invisible_characters_are_escaped() -> None:
    assert shown(HOSTILE) == HARMLESS
    assert shown("größer, 表, 😀, a\u00a0b\u2009c …") == "größer, 表, 😀, a\u00a0b\u2009c …"
    assert shown("a\n\tb\r", LINES) == "a\n\tb\\u000d"
    assert shown("\ud800") == "\\ud800"


def test_json_means_the_same() -> None:
    given = {HOSTILE: ["\\u0041", HOSTILE, 1]}
    assert json.loads(shown(json.dumps(given, ensure_ascii=False))) == given


def test_errors_are_one_line() -> None:
    assert str(SluiceError(f"table {HOSTILE} is odd")) == f"table {HARMLESS} is odd"
    assert str(ConfigError("one\ntwo\x1b")) == "one\ntwo\\u001b"
    assert str(TransientError("one\n\ttwo\x1b").in_lines()) == "one\n\ttwo\\u001b"


def test_batches() -> None:
    staged = StagedTable("shop", HOSTILE, "b", None, 7, 0)
    table = TableResult(HOSTILE, f"shop.{HOSTILE}", COUNTS, (staged,))
    result = BatchResult("shop", "b1", "a1", (table,))
    text = printed(lambda console: report.show_batch(console, result))
    assert text.count(f"shop.{HARMLESS}") == 2


def test_status() -> None:
    row = BatchRow(
        pipeline="shop", batch_id="b1", attempt="a1", state=FAILED, holder="", lease_until=None,
        seq=1, at=datetime.now(UTC), manifest="",
        detail=json.dumps({"error": HOSTILE, "newest_source_ts": HOSTILE}),
    )  # fmt: skip
    text = printed(lambda console: show_status(console, [BatchStatus(row)]))
    assert HARMLESS in text


def test_a_long_error_leaves_the_table_readable() -> None:
    error = (
        "AuditFailedError: " + "a check found rows; to go on: sluice rollback shop --batch b1; " * 5
    )
    row = BatchRow("shop", "b1", "a1", FAILED, detail=json.dumps({"error": error, "read": 12345}))
    text = printed(lambda console: show_status(console, [BatchStatus(row)]))
    assert "12345" in text
    assert error.strip() in " ".join(text.split())


def test_a_preview() -> None:
    table = TableForecast(
        HOSTILE, f"shop.{HOSTILE}", (HOSTILE,), True, (HOSTILE,), (HOSTILE,), COUNTS,
        "merge-on-read", renamed=(HOSTILE,), nulled=(Nulled(HOSTILE, 12_345),),
        dropped=(HOSTILE,),
    )  # fmt: skip
    found = Preview("shop", (HOSTILE,), 1, 1, (), ("b1",), Forecast((table,)))
    text = printed(lambda console: report.show_preview(console, found))
    assert text.count(HARMLESS) >= 8
    assert f"column {HARMLESS} would be dropped" in " ".join(text.split())
    assert f"values that do not fit would be NULL: 12,345 of {HARMLESS}" in text
    (as_json,) = report.preview_json(found)["forecast"]["tables"]
    assert (as_json["target"], as_json["nulled"]) == (f"shop.{HOSTILE}", {HOSTILE: 12_345})


def test_a_preview_names_the_columns_of_a_table_that_would_be_made_as_far_as_they_fit() -> None:
    columns = tuple(f"c{number} string" for number in range(report.MOST_COLUMNS + 2))
    table = TableForecast("t", "shop.t", ("c0",), True, columns, (), COUNTS, "merge-on-read")
    found = Preview("shop", ("a.jsonl",), 1, 1, (), (), Forecast((table,)))
    text = printed(lambda console: report.show_preview(console, found))
    assert "shop.t: would be made, with the key c0\n" in text
    assert "shop.t: its columns would be c0 string, c1 string, " in text
    assert text.strip().endswith("string and 2 more (--json)")


def test_lines_of_a_preview_are_whole_in_any_width() -> None:
    """A key that is broken cannot be copied, nor found by grep."""
    long = "a" * 200
    table = TableForecast("t", f"shop.{long}", (), False, (long,), (), COUNTS, "merge-on-read")
    found = Preview(
        "shop", (), 0, 0, (), (long,), Forecast((table,)), denied={long: long}, changed=(long,)
    )
    to = io.StringIO()
    report.show_preview(Console(file=to, width=80), found)
    lines = to.getvalue().splitlines()
    assert len([line for line in lines if long in line]) == len(lines) - 1 == 4


def test_maintenance() -> None:
    result = MaintenanceResult("shop", False, (Step(HOSTILE, "rewrite", HOSTILE),), (HOSTILE,))
    assert printed(lambda console: report.show_maintenance(console, result)).count(HARMLESS) == 3


def test_a_verification() -> None:
    difference = Difference("differs", (HOSTILE,), {HOSTILE: HOSTILE}, {HOSTILE: None})
    one = Comparison(f"shop.{HOSTILE}", "1", 1, 1, 1, {"differs": 1}, (difference,))
    same = Comparison("shop__cdc.t", "1", 1, 1, 0, {})
    table = TableReport(HOSTILE, ("id",), one, same, (HOSTILE,), "0")
    found = Verification("shop", "2026-11-21T10:00:00Z", 1, (table,), (HOSTILE,), 1.0)
    assert HARMLESS in printed(lambda console: verify_report.show(console, found))
    assert unseen(verify_report.as_html(found)) == set()


@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_answers_of_sql(output: Output) -> None:
    to = io.StringIO()
    write_rows(pa.table({HOSTILE: [HOSTILE]}), output, to)
    assert unseen(to.getvalue()) == set()
    assert HARMLESS in to.getvalue() or json.loads(to.getvalue()) == {HOSTILE: HOSTILE}
    assert not [line for line in to.getvalue().splitlines() if line.startswith("ERROR")]


def test_messages_of_the_command_line_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    cli._say(HOSTILE)
    cli._done([HOSTILE], as_json=False)
    cli._done([HOSTILE], as_json=True)
    captured = capsys.readouterr()
    assert unseen(captured.out + captured.err) == set()
    assert json.loads(captured.out.splitlines()[-1]) == {"done": [HOSTILE]}


def test_messages_of_a_driver_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    emit(f"table {HOSTILE} is odd")
    emit(f"PlanError: {HARMLESS}\n\ttwo\x1b", LINES)
    assert capsys.readouterr().err == (
        f"table {HARMLESS} is odd\nPlanError: {HARMLESS}\n\ttwo\\u001b\n"
    )


def test_messages_of_stages_are_escaped(tmp_path: Path) -> None:
    lines: list[str] = []
    open_shop(tmp_path, say=lines.append).say(HOSTILE)
    assert lines.pop() == HARMLESS
