"""The reports of a verification: every value as it is, and nothing in one is markup."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from sluice.errors import VerifyFailedError
from sluice.escaping import shown
from sluice.operations.verify import refuse_differences
from sluice.output.verify_report import as_html, show
from sluice.verification import Comparison, Difference, TableReport, Verification

HOSTILE = "<script>alert('[red]')</script>\u2028&"
SAME = Comparison("shop__cdc.orders__tombstones", "12345678901234567890", 3, 3, 0, {})
ROWS = Comparison(
    "shop.orders", "7", 10, 9, 2, {"missing": 1, "differs": 1},
    (
        Difference("missing", (), {"id": "1", "note": None}, None),
        Difference("differs", ("note",), {"id": "2", "note": HOSTILE}, {"id": "2", "note": "b"}),
    ),
)  # fmt: skip
WRONG = Verification(
    "shop", "2026-11-21T10:00:00Z", 4,
    (TableReport("shop.orders", ("id",), ROWS, SAME, ("99 (overwrite)",), "0000.2"),),
    ("the lake moved",), 1.5,
)  # fmt: skip
RIGHT = replace(
    WRONG,
    tables=(TableReport("shop.orders", ("id",), replace(SAME, table="shop.orders"), SAME),),
    notes=(),
)


def text_of(found: Verification) -> str:
    """What a terminal shows."""
    to = io.StringIO()
    show(Console(file=to, width=200), found)
    return to.getvalue()


class Page(HTMLParser):
    """A page as a browser reads it: its elements, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_json_is_one_line_and_comes_back() -> None:
    for found in (WRONG, RIGHT):
        text = found.to_json()
        assert len(text.splitlines()) == 1
        assert Verification.from_json(text) == found


def test_json_report_says_whether_tables_agree() -> None:
    report = json.loads(WRONG.to_json())
    assert report["agrees"] is False
    assert [t["agrees"] for t in report["tables"]] == [False]
    assert json.loads(RIGHT.to_json())["agrees"] is True


def test_text_shows_the_keys() -> None:
    text = text_of(WRONG)
    for part in (
        "1 missing, 1 differs", "expected: id=1, note=NULL", "found: no row", HOSTILE[:30],
        "differs in note", "found: id=2, note=b", "99 (overwrite)", "the lake moved",
        "2 of 256 key ranges differ", "above its floor 0000.2",
    ):  # fmt: skip
        assert part in text
    assert "no batch wrote" not in text_of(RIGHT)


def test_the_page_shows_the_same_and_runs_nothing() -> None:
    page = Page(as_html(WRONG))
    assert "script" not in page.elements
    assert "mark" in page.elements
    for part in (f"note: {shown(HOSTILE)}", "1 missing, 1 differs", "99 (overwrite)", "no row"):
        assert part in page.text
    assert "every table agrees" in Page(as_html(RIGHT)).text


def test_a_difference_is_an_error_that_names_the_table() -> None:
    with pytest.raises(VerifyFailedError, match=r"shop\.orders: 1 missing, 1 differs\.") as raised:
        refuse_differences(WRONG)
    assert raised.value.exit_code == 1
    refuse_differences(RIGHT)


BESIDE_SOURCE = replace(
    WRONG,
    tables=(TableReport("shop.orders", ("id",), ROWS, None),),
    source="jdbc:postgresql://db/[shop]",
)


def test_report_beside_a_live_source_names_the_source() -> None:
    assert Verification.from_json(BESIDE_SOURCE.to_json()) == BESIDE_SOURCE
    assert "4 published batches beside jdbc:postgresql://db/[shop]" in text_of(BESIDE_SOURCE)
    assert "beside jdbc:postgresql://db/[shop]" in Page(as_html(BESIDE_SOURCE)).text
    with pytest.raises(VerifyFailedError, match="The source has other rows"):
        refuse_differences(BESIDE_SOURCE)


def test_a_pipeline_without_tables_has_no_empty_report() -> None:
    text = text_of(Verification("shop", "2026-03-02T10:00:00+00:00", 0, ()))
    assert text.strip() == "shop: no table is published yet"
