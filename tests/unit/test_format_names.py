"""The configuration's formats are those that have decoders, and its options are documented."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from sluice.config.formats import FORMAT_NAMES, OPTIONS, refuse_unknown_options
from sluice.containers import datums
from spark_jobs.formats import (
    FORMATS,
    canal,
    debezium_avro,
    debezium_decimals,
    debezium_order,
    maxwell,
    row_image,
    tombstones,
)
from tests import documented


def test_every_decoder_has_a_name_and_every_name_a_decoder() -> None:
    assert set(FORMAT_NAMES) == FORMATS.keys()


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_the_page_of_a_format_tells_of_its_options(name: str) -> None:
    pages = documented.FORMATS.glob(f"{name}*.md")
    told = "".join(page.read_text() for page in pages)
    assert [option for option in OPTIONS[name] if not re.search(rf"`{option}\b", told)] == []


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_other_options_are_refused_with_those_that_there_are(name: str) -> None:
    refuse_unknown_options(name, {})
    expected = f"options of {name}: {', '.join(OPTIONS[name]) or 'it has none'}"
    with pytest.raises(ValueError, match=f"^{expected}$"):
        refuse_unknown_options(name, {"nope": 1})


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("debezium", "connector", [debezium_order.MONGODB]),
        ("debezium", "decimal_format", [debezium_decimals.BASE64, debezium_decimals.NUMERIC]),
        ("debezium", "tombstones", [tombstones.IGNORE, tombstones.DELETE]),
        ("debezium", "layout", debezium_avro.LAYOUTS),
        ("dts_avro", "framing", datums.FRAMINGS),
        ("datastream", "records", ["json", "value"]),
        ("canal", "form", canal.FORMS),
        ("canal", "row_image", [row_image.FULL, row_image.PARTIAL]),
        ("maxwell", "order", [maxwell.BY_LOG, maxwell.BY_ARRIVAL]),
        ("maxwell", "row_image", [row_image.FULL, row_image.PARTIAL]),
    ],
)
def test_an_option_says_one_of_the_words_that_its_decoder_knows(
    name: str, option: str, words: Sequence[str]
) -> None:
    for word in words:
        refuse_unknown_options(name, {option: word})
    with pytest.raises(ValueError, match=f"^of option {option}: {' or '.join(words)}$"):
        refuse_unknown_options(name, {option: "nope"})


@pytest.mark.parametrize("name", [name for name, options in OPTIONS.items() if options])
def test_an_option_without_a_value_is_no_default(name: str) -> None:
    option = OPTIONS[name][0]
    with pytest.raises(ValueError, match=f"^of option {option}: a value, or no such line$"):
        refuse_unknown_options(name, {option: None})


def test_arrival_is_canals_order_where_it_is_named_too() -> None:
    assert canal._parse({"order": canal.BY_ARRIVAL}) == canal._parse({})
