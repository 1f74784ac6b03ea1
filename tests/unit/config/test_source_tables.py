"""`sources:` of a table: what a pattern matches, what is refused, whose a source table is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.source_tables import claimants, matches, partial_truncate_policy, truncate_policy
from sluice.config.table_choice import only
from tests.unit.projects import load, mistake


def tables(patterns: dict[str, list[str] | None]) -> dict[str, TableConfig]:
    return {name: TableConfig(sources=sources) for name, sources in patterns.items()}


def pipeline(**more: object) -> Pipeline:
    given = {"name": "p", "format": "debezium", "landing": {"url": "l"}, "namespace": "n"}
    return Pipeline.model_validate({**given, **more})


def refusal(**more: object) -> str:
    with pytest.raises(ValidationError) as caught:
        pipeline(**more)
    (mistake,) = caught.value.errors()
    return mistake["msg"]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("orders_p*", "orders_p2024"),
        ("orders_p*", "orders_p"),
        ("orders_p*", "shop.public.orders_p2024"),
        ("public.orders_p*", "shop.public.orders_p2024"),
        ("shop_*.orders_*", "shop_00.orders_07"),
        ("shop_??.orders", "shop_07.orders"),
        ("orders.old", "orders.old"),
        ("a+b$(c)", "s.a+b$(c)"),
        (r"a\d^", r"a\d^"),
        ("größe_?", "größe_😀"),
        ("a b\tc#*", "a b\tc#d\ne"),
    ],
)
def test_a_pattern_matches_the_name_or_its_end(pattern: str, name: str) -> None:
    assert matches([pattern], name)
    assert matches(["else", pattern], name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("orders_p*", "Orders_p2024"),
        ("orders_p*", "old_orders_p2024"),
        ("orders_p*", "orders_p2024.extra"),
        ("shop_*", "shop_00.orders"),
        ("shop_*.orders", "shop_00.public.orders"),
        ("orders?", "orders"),
        ("a.b", "axb"),
        ("a|b", "a"),
        ("a+", "aa"),
        ("(a)", "a"),
        (r"a\d", "a1"),
        ("a", "a\n"),
    ],
)
def test_a_pattern_matches_nothing_else(pattern: str, name: str) -> None:
    assert not matches([pattern], name)


@pytest.mark.parametrize("sources", [[], [""], ["a..b"], [".a"], ["a."], ["a", "a"], ["a_[0-9]"]])
def test_invalid_source_pattern_is_refused(sources: list[str]) -> None:
    with pytest.raises(ValidationError, match=r"one pattern or more|a name with"):
        TableConfig(sources=sources)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            {"a": {"sources": ["x_*"]}, "b": {"sources": ["y", "x_*"]}},
            "each pattern in `sources` of one table; x_* is in those of a and b",
        ),
        (
            {"public.orders": {"sources": ["orders*"]}, "shop.orders_old": {}},
            "`sources` of public.orders that leave shop.orders_old out; orders* matches it",
        ),
        ({"a.b.c.d": {"sources": ["x"]}}, "a.b.c.d as database.schema.table or the end of it"),
    ],
)
def test_a_source_of_two_tables_is_refused(listed: dict[str, object], expected: str) -> None:
    assert expected in refusal(tables=listed)


def test_a_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    message = mistake(
        tmp_path,
        p="name: p\nformat: canal\nlanding: {url: l}\nnamespace: n\n"
        "tables:\n  orders:\n    sources: []\n  users:\n    sources: [u_*, '']\n",
    )
    first, second = message.splitlines()
    assert "p.yaml:7: tables.orders.sources: expected one pattern or more, each once" in first
    assert "p.yaml:9: tables.users.sources[1]: expected a name with * and ? in it" in second


def test_a_pattern_may_match_its_own_table() -> None:
    assert pipeline(tables={"orders": {"sources": ["orders*", "old"]}, "users": {}})


def test_a_source_table_is_of_the_longest_name_and_of_every_pattern() -> None:
    listed = tables({"orders": ["orders_*"], "archive.orders": None, "old": ["*_old"]})
    assert claimants(listed, "shop.orders") == ["orders"]
    assert claimants(listed, "shop.archive.orders") == ["archive.orders"]
    assert claimants(listed, "shop.orders_1") == ["orders"]
    assert claimants(listed, "orders_old") == ["old", "orders"]
    assert claimants(listed, "users") == []
    listed = tables({"orders": None, "archive": ["archive.orders*"]})
    assert claimants(listed, "archive.orders") == ["archive", "orders"]


def test_a_truncate_of_one_source_needs_the_tables_own_word() -> None:
    plain, applying = TableConfig(sources=["a"]), TableConfig(sources=["a"], on_truncate="apply")
    for given, of_all, of_one in [
        ("apply", "apply", "fail"), ("ignore", "ignore", "ignore"), ("fail", "fail", "fail"),
    ]:  # fmt: skip
        whole = pipeline(on_truncate=given)
        assert truncate_policy(whole, plain) == of_all
        assert partial_truncate_policy(whole, plain) == of_one
        assert (
            truncate_policy(whole, applying) == partial_truncate_policy(whole, applying) == "apply"
        )


def test_tables_left_out_of_a_run_keep_their_source_tables() -> None:
    whole = pipeline(tables={"orders": {"sources": ["orders_*"]}, "old": {"sources": ["*_old"]}})
    chosen = only(whole, ["orders"])
    assert chosen.loads("orders")
    assert not chosen.loads("old")
    assert claimants(chosen.tables or {}, "orders_old") == ["old", "orders"]
    assert whole.loads("old")


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        ("orders", "db.orders"), ("db.orders", "db.orders"), ("shop.db.orders", "db.orders"),
        ("shop.lines", "lines"), ("other.notes", "notes"), ("db.notes", "shop.db.notes"),
    ],
)  # fmt: skip
def test_a_run_names_a_table_by_an_end_of_its_entry_or_in_full(named: str, chosen: str) -> None:
    """In full as messages about a load name it; the load finds its entry by the end of that."""
    listed = ("db.orders", "lines", "notes", "shop.db.notes")
    template = "{database}_{table}"  # else two would go to `notes`
    whole = pipeline(table_name=template, tables={name: {} for name in listed})
    assert [name for name in listed if only(whole, [named]).loads(name)] == [chosen]


def test_two_pipelines_of_one_namespace_differ_by_their_tables_names(tmp_path: Path) -> None:
    def of(name: str, table: str, more: str = "") -> str:
        return (
            f"name: {name}\nformat: canal\nlanding: {{url: {name}}}\nnamespace: n\n"
            f"tables: {{{table}: {{sources: [t_*]}}}}\n{more}"
        )

    one = of("one", "orders")
    assert sorted(load(tmp_path, one=one, two=of("two", "users")).pipelines) == ["one", "two"]
    otherwise = "table_name: '{database}_{table}'\n"
    for two in (of("two", "shop.Orders"), of("two", "users", otherwise)):
        assert "namespace: already used by one.yaml" in mistake(tmp_path, one=one, two=two)


@pytest.mark.parametrize("none", [{}, None])
def test_a_list_of_no_tables_is_refused_and_not_taken_for_all(none: object) -> None:
    assert "or no `tables:` at all, which loads every table" in refusal(tables=none)
    assert pipeline().tables is None
