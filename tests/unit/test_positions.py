"""Positions: text order is the source's order."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.positions import (
    arrival_again,
    arrival_changed,
    arrival_of,
    encode_number,
    epoch_prefix,
    natural_key,
    opening_position,
)

NUMBERS = st.integers(min_value=0, max_value=10**99 - 1)


@given(NUMBERS, NUMBERS)
def test_numbers_sort_as_numbers(one: int, two: int) -> None:
    assert (encode_number(one) < encode_number(two)) == (one < two)
    assert (encode_number(one) == encode_number(two)) == (one == two)


@given(st.lists(NUMBERS, min_size=3, max_size=3), st.lists(NUMBERS, min_size=3, max_size=3))
def test_joined_numbers_sort_as_tuples(one: list[int], two: list[int]) -> None:
    texts = [".".join(map(encode_number, numbers)) for numbers in (one, two)]
    assert (texts[0] < texts[1]) == (one < two)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "010"), ("000", "010"), ("007", "017"), (1000000, "071000000")]
)
def test_a_number_is_its_length_and_its_digits(value: int | str, text: str) -> None:
    assert encode_number(value) == text


@pytest.mark.parametrize("value", ["-1", "1.0", "0x1f", "1 ", "", "٣", "9" * 100])
def test_text_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="1 to 99 digits"):
        encode_number(value)


def test_binlog_files_sort_by_their_number() -> None:
    files = ["binlog.1000000", "binlog.000010", "binlog.9", "binlog.999999"]
    assert sorted(files, key=natural_key) == [files[i] for i in (2, 1, 3, 0)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("part-9.jsonl", "part-10.jsonl"),
        ("dt=2024-01-02/hr=9/a", "dt=2024-01-02/hr=10/a"),
        ("dt=2024-01-02/hr=23/z", "dt=2024-01-10/hr=00/a"),
        ("a1b2", "a1b10"),
        ("a", "a0"),
        ("x" + "0" * 120 + "1", "x" + "0" * 120 + "2"),
    ],
)
def test_natural_order_of_object_keys(earlier: str, later: str) -> None:
    assert natural_key(earlier) < natural_key(later)


def positions(key: str, *blocks: int) -> list[str]:
    return [f"{arrival_of(key)}.{encode_number(block)}.010" for block in blocks]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("part-01.jsonl", "part-1.jsonl"),
        ("dt=2024-01-02/hr=05/a", "dt=2024-01-02/hr=5/a"),
        ("part-000", "part-0"),
        ("1" + "2" * 99, "2" * 99),
        ("a-01", "a-01.0"),
        ("a-01", "a-01.1"),
        ("a-01.json", "a-01.json.gz"),
        ("a-01.json", "a-1.json.gz"),
        ("events.log", "events.log.1"),
        ("events.log", "events.log.0"),
        ("events.log", "events.log.00"),
        ("events.log", "events.log.20"),
        ("part-1", "part-1.7"),
        ("a-01-b", "a-01"),
    ],
)
def test_files_whose_numbers_are_written_otherwise_have_places_of_their_own(
    earlier: str, later: str
) -> None:
    places = [*positions(earlier, 0, 10**18), *positions(later, 0, 10**18)]
    assert places == sorted(set(places))


def test_no_file_stands_among_the_blocks_of_another() -> None:
    """However many blocks a file is read in, which depends on the other files of its batch."""
    names = ["".join(name) for size in (1, 2, 3, 4) for name in product("023.,-", repeat=size)]
    spans = sorted((positions(name, 0)[0], positions(name, 10**18)[0]) for name in names)
    assert all(last < first for (_, last), (first, _) in pairwise(spans))


def test_positions_of_an_earlier_release_stay_between_the_same_files() -> None:
    old = [f"{natural_key('a-9.log')}.{encode_number(block)}.010" for block in (0, 10**18)]
    places = [
        *positions("a-8.log", 0),
        *old,
        *positions("a-9.log.gz", 0),
        *positions("a-10.log", 0),
    ]
    assert places == sorted(places)


def test_no_two_texts_have_one_natural_key() -> None:
    texts = [*product("01.,", repeat=5), *product("01.,", repeat=4), *product("01.,", repeat=3)]
    assert len({natural_key("".join(text)) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "key"),
    [("part-9.jsonl", "part-019.jsonl"), ("dt=2024-10-12/0", "dt=042024-0210-0212/010")],
)
def test_numbers_without_zeros_in_front_are_all_of_the_natural_key(text: str, key: str) -> None:
    assert natural_key(text) == key


def test_a_higher_epoch_sorts_above_everything_before_it() -> None:
    assert f"{epoch_prefix(0)}.2.{encode_number(10**98)}" < f"{epoch_prefix(1)}.0.010"
    assert epoch_prefix(9) < epoch_prefix(10) < epoch_prefix(9999)
    assert f"{epoch_prefix(0)}.2.{encode_number(10**98)}" < opening_position(1)
    assert opening_position(1) < f"{epoch_prefix(1)}.0.010"


@pytest.mark.parametrize(
    ("key", "next_key"), [("a-9.jsonl", "a-10.jsonl"), ("events.log", "events.log.0")]
)
def test_a_file_read_again_comes_after_its_first_reading_and_before_the_next_file(
    key: str, next_key: str
) -> None:
    """After the arrival the block's number follows, a split's first byte: up to 19 digits."""
    first = positions(key, 0, 10**18)
    again = [f"{arrival_again(arrival_of(key), n)}.010.010" for n in (1, 2, 10)]
    following = f"{arrival_of(next_key)}.010.010"
    assert sorted([following, *again[::-1], *first[::-1]]) == [*first, *again, following]


@pytest.mark.parametrize("key", ["a-9.jsonl", "a-09", "a.12345678901234567890", "a.3"])
def test_a_file_read_a_third_time_comes_after_its_second_reading(key: str) -> None:
    arrival = arrival_of(key)
    assert arrival_again(arrival_again(arrival, 1), 12) == arrival_again(arrival, 12)


def test_a_changed_file_comes_after_all_readings_of_the_one_before_it() -> None:
    first = arrival_of("a-9.jsonl")
    second = arrival_changed(first)
    third = arrival_changed(second)
    readings = [
        f"{at}.{encode_number(0)}.010"
        for file in (first, second, third)
        for at in (file, arrival_again(file, 1), arrival_again(arrival_again(file, 1), 12))
    ]
    following = f"{arrival_of('a-10.jsonl')}.010.010"
    assert sorted([following, *readings[::-1]]) == [*readings, following]


def test_the_tenth_change_comes_after_the_ninth() -> None:
    arrivals = [arrival_of("a-9.jsonl")]
    for _ in range(12):
        arrivals.append(arrival_changed(arrivals[-1]))
    assert sorted(arrivals) == arrivals
    assert len({*arrivals}) == 13
