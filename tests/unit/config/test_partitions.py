"""Partitions, as a pipeline's YAML writes them."""

from __future__ import annotations

import pytest

from sluice.config.partitions import Partition, parse_partition


@pytest.mark.parametrize(
    ("text", "expected", "sql"),
    [
        ("region", Partition("region"), "`region`"),
        ("days(created_at)", Partition("created_at", "days"), "days(`created_at`)"),
        (" bucket( 16 , id ) ", Partition("id", "bucket", 16), "bucket(16, `id`)"),
        ("truncate(4, name)", Partition("name", "truncate", 4), "truncate(4, `name`)"),
        ("`odd name`", Partition("odd name"), "`odd name`"),
    ],
)
def test_a_partition_is_written_as_in_sql(text: str, expected: Partition, sql: str) -> None:
    assert parse_partition(text) == expected
    assert expected.sql == sql


@pytest.mark.parametrize("text", ["", "day(a)", "bucket(a)", "bucket(0, a)", "days(a, b)", "a b"])
def test_invalid_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bucket"):
        parse_partition(text)
