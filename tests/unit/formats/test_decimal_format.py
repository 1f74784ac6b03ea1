"""Decimals of Connect's JSON that are not written as the pipeline says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.config.format_options import DebeziumOptions
from sluice.errors import TerminalError
from spark_jobs.formats.common.connect import DECIMAL
from spark_jobs.formats.debezium.decimals import refuse_other

NUMERIC = DebeziumOptions(decimal_format="numeric")
OF_TWO = {"name": DECIMAL, "type": "bytes", "parameters": {"scale": "2"}}


def line(value: Any, kind: dict[str, Any] | None = None, image: str = "after") -> str:
    """An event with one decimal, or with a list of them."""
    field = {"field": "d", **(OF_TWO if kind is None else kind)}
    images = [{"field": image, "type": "struct", "fields": [{"field": "id"}, field]}]
    schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}
    return json.dumps({"schema": schema, "payload": {image: {"id": 1, "d": value}, "op": "c"}})


LIST = {"type": "array", "items": OF_TWO}
NUMBERS = [
    [line(1234)], [line(12.5)], [line(0)], [line(5, image="before")], [line([None, 7], LIST)],
    [f'{{"key":null,"value":{line(1234)}}}'], [line(None), "", "x", "[1]", line(1234)],
]  # fmt: skip
BYTES = [[line("B8Y=")], [line(["B8Y="], LIST)], [line(None), line("B8Y=")]]
NEITHER = [
    [], [line(None)], [line(True)], [line([], LIST)], [line(7, {"type": "int32"})],
    [json.dumps({"schema": {"fields": DECIMAL}, "payload": {}})],
    [json.dumps({"schema": {"fields": [7, {"fields": [DECIMAL]}]}, "payload": {"after": [5]}})],
]  # fmt: skip


@pytest.mark.parametrize("lines", NUMBERS)
def test_decimals_as_numbers_are_refused_without_the_option(lines: list[str]) -> None:
    """As base64 most of them do not fit, and four digits are another number."""
    with pytest.raises(TerminalError, match=r"'d'.*format_options.decimal_format: numeric"):
        refuse_other(lines, DebeziumOptions())
    refuse_other(lines, NUMERIC)


@pytest.mark.parametrize("lines", BYTES)
def test_decimals_in_base64_are_refused_with_the_option(lines: list[str]) -> None:
    with pytest.raises(TerminalError, match=r"'d'.*base64: leave"):
        refuse_other(lines, NUMERIC)
    refuse_other(lines, DebeziumOptions(decimal_format="base64"))


@pytest.mark.parametrize("lines", NEITHER)
@pytest.mark.parametrize("options", [DebeziumOptions(), NUMERIC])
def test_lines_without_a_decimal_do_not_settle_the_format(
    lines: list[str], options: DebeziumOptions
) -> None:
    """They are accepted with either option, and a decimal behind them is still compared with it."""
    refuse_other(lines, options)
    other = line("B8Y=") if options is NUMERIC else line(1234)
    with pytest.raises(TerminalError, match="'d'"):
        refuse_other([*lines, other], options)
