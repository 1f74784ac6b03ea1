"""The configuration's formats are those that have decoders, and its options are documented."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from sluice.config.formats import FORMAT_NAMES, options_model
from spark_jobs.formats import FORMATS
from spark_jobs.formats.canal import decoder as canal
from spark_jobs.formats.common import envelope, scans
from spark_jobs.record_places import PLACE
from tests import documented


def mistakes(name: str, **given: Any) -> list[tuple[str, str]]:
    """The path and the text of each mistake in a format's options."""
    with pytest.raises(ValidationError) as error:
        options_model(name).model_validate(given)
    found = error.value.errors()
    return [(".".join(map(str, one["loc"])), one["msg"]) for one in found]


def test_every_decoder_has_a_name_and_every_name_a_decoder() -> None:
    assert set(FORMAT_NAMES) == FORMATS.keys()


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_page_of_a_format_describes_its_options(name: str) -> None:
    pages = documented.FORMATS.glob(f"{name}*.md")
    expected = "".join(page.read_text() for page in pages)
    options = options_model(name).model_fields
    assert [option for option in options if not re.search(rf"`{option}\b", expected)] == []


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_another_option_is_refused(name: str) -> None:
    assert mistakes(name, nope=1) == [("nope", "Extra inputs are not permitted")]


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_an_option_without_a_value_is_no_default(name: str) -> None:
    options = dict.fromkeys(options_model(name).model_fields)
    if options:
        expected = "Value error, a value, or no such line"
        assert mistakes(name, **options) == [(option, expected) for option in options]


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("debezium", "connector", "mysql"),
        ("debezium", "decimal_format", "text"),
        ("debezium", "layout", "lines"),
        ("debezium", "sqlserver_order", "lsn"),
        ("debezium", "tombstones", True),
        ("debezium", "update_without_document", "fail"),
        ("debezium", "table", "s..o"),
        ("debezium", "table", "a.b.c.d"),
        ("debezium", "schemas", "relative"),
        ("debezium", "schema_registry", "ftp://r"),
        ("debezium", "schema_registry", "http://user@r"),
        ("debezium", "unavailable_value", 5),
        ("debezium", "unavailable_value", []),
        ("debezium", "unavailable_value", ""),
        ("huawei_cdl", "unavailable_value", ["x", ""]),
        ("datastream", "records", "text"),
        ("canal", "form", "DRS"),
        ("canal", "order", 5),
        ("canal", "row_image", "minimal"),
        ("datahub_tuple", "csv_delimiter", ""),
        ("datahub_tuple", "csv_delimiter", '"'),
        ("datahub_tuple", "table", 5),
        ("huawei_cdl", "database", 5),
        ("dts_avro", "framing", "x"),
        ("aws_dms", "before_field", ""),
        ("aws_dms", "before_field", "Data"),
        ("aws_dms", "csv_columns", "a,b"),
        ("aws_dms", "order_column", ["seq"]),
        ("maxwell", "order", "time"),
        ("ogg", "table", "s..o"),
        ("rows", "csv_null", 0),
    ],
)
def test_a_wrong_value_is_refused_by_its_path(name: str, option: str, value: Any) -> None:
    assert [path for path, _ in mistakes(name, **{option: value})] == [option]


def test_schemas_have_one_place() -> None:
    ((_, message),) = mistakes("debezium", schemas="/a", schema_registry="http://r")
    assert message == "Value error, schemas or schema_registry, not both"


def test_order_of_canal_is_a_scalar_field_of_the_message() -> None:
    """Neither a list or mapping among the members, nor a column that the decoder adds."""
    added = (envelope.CORRUPT, *PLACE, scans.ARRIVAL, scans._OBJECT, scans._LANDED)
    texts = {name for name, kind in canal._FIELDS.items() if kind == "string"}
    for order in (*texts, "offset", "arrival"):
        options_model("canal").model_validate({"order": order})
    others = canal._FIELDS.keys() - texts | {"ID", "Es", "sqltype", *added}
    for order in others:
        ((path, problem),) = mistakes("canal", order=order)
        assert (path, problem) == ("order", "Value error, a field of the message that orders")


def test_commit_ts_is_the_only_member_of_tidb_that_orders() -> None:
    options_model("canal").model_validate({"order": "_tidb.commitTs"})
    ((path, message),) = mistakes("canal", order="_tidb.other")
    assert (path, message) == ("order", "Value error, _tidb.commitTs, which alone orders")


@pytest.mark.parametrize("order", [" offset", "offset ", "\toffset", " "])
def test_no_field_of_canal_has_blanks_around_its_name(order: str) -> None:
    ((path, problem),) = mistakes("canal", order=order)
    assert (path, problem) == ("order", "Value error, a field of the message that orders")
