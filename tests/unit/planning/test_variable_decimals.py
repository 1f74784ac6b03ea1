"""Decimals that bring their scale along, in a hinted column that has others too."""

from __future__ import annotations

import pytest

from sluice.types.columns import UNSCALED, VARIABLE, ColumnType, decimal, parse_type
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.stored_types import KnownTypes, planned

OWN_SCALE, FIXED = ColumnType("string", VARIABLE), decimal(12, 2, "base64")
OF_TWO, PLAIN = f"{UNSCALED}2", ColumnType("double")


def readings(hint: str, *described: ColumnType) -> dict[int | None, str]:
    """How the values of each description are written, of a column with this hint."""
    events = {i: {"a": SourceColumn("a", kind)} for i, kind in enumerate(described)}
    column = planned("a", events, KnownTypes("t", {"a": hint}, {}))
    assert column.stored == parse_type(hint)
    return {i: kind.encoding for i, kind in column.readings.items()}


@pytest.mark.parametrize("hint", ["string", "decimal(38,2)", "double"])
def test_each_decimal_is_read_by_its_own_description(hint: str) -> None:
    """In one batch as in two: the base64 of a plain one would pass for its text."""
    assert readings(hint, OWN_SCALE, FIXED) == {0: VARIABLE, 1: OF_TWO, None: VARIABLE}
    assert readings(hint, FIXED) == {0: OF_TWO, None: ""}


def test_decimals_written_in_one_way_have_one_reading() -> None:
    assert readings("string", OWN_SCALE, OWN_SCALE) == {None: VARIABLE}
    assert readings("string", OWN_SCALE, PLAIN) == {0: VARIABLE, 1: "", None: VARIABLE}
    assert readings("string", PLAIN) == {None: ""}
