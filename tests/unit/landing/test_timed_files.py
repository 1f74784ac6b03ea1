"""Files of changes by AWS DMS, whose names are the times of their first changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.containers.csv_rows import CsvStyle
from sluice.landing.inspection import Inspection, Inspector
from sluice.landing.reading import Reading, reading_of
from sluice.objects.store import LocalStore
from sluice.positions import arrival_of
from tests.unit.fake_loads import PIPELINE
from tests.unit.projects import open_shop

FIRST, SECOND = "20241027-120000000.csv", "20241101-090000000.csv"


def look(root: Path, key: str, timed: bool = True) -> Inspection:
    landing = LocalStore(root / "landing")
    landing.put(key, b"Op,id\nI,1\n")
    (found,) = landing.list()
    reading = Reading(tables=CsvStyle(), timed=timed)
    return Inspector(landing, LocalStore(root / "staging"), "p/staged/", reading).inspect(found)


@pytest.mark.parametrize(
    ("of_first", "of_second"),
    [
        ("", ""),
        ("2024/10/27/", "2024/11/01/"),
        ("20241027/", "20241101/"),
        ("2024-10/", "2024-11/"),
        ("27/10/2024/", "01/11/2024/"),
        ("27_10_2024/", "01_11_2024/"),
        ("27102024/", "01112024/"),
        ("10/2024/27/", "11/2024/01/"),
        ("12/2023/31/", "01/2024/01/"),
        ("10-2024-27/", "11-2024-01/"),
        ("", "01/11/2024/"),
        ("27/10/2024/", ""),
    ],
)
def test_changes_are_in_the_order_of_their_times(
    tmp_path: Path, of_first: str, of_second: str
) -> None:
    """Whatever the endpoint's DatePartitionSequence and DatePartitionDelimiter are."""
    first = look(tmp_path / "a", f"hr/emp/{of_first}{FIRST}").file.arrival
    second = look(tmp_path / "b", f"hr/emp/{of_second}{SECOND}").file.arrival
    assert first < second


@pytest.mark.parametrize(
    "key",
    [
        f"hr/emp/{FIRST}",
        f"hr/emp/2024/10/27/{FIRST}",
        f"hr/emp/2024/10/27/20/{FIRST}",
        f"hr/emp/2024102720/{FIRST}",
        f"hr/emp/202410/{FIRST}",
        "hr/emp/27/10/2024/other.csv",
    ],
)
def test_in_other_folders_a_file_keeps_the_place_of_its_key(tmp_path: Path, key: str) -> None:
    assert look(tmp_path, key).file.arrival == arrival_of(key)


def test_only_where_names_are_times_they_order(tmp_path: Path) -> None:
    key = f"hr/emp/27/10/2024/{FIRST}"
    assert look(tmp_path, key, timed=False).file.arrival == arrival_of(key)


def test_files_of_one_name_have_places_of_their_own(tmp_path: Path) -> None:
    folders = ("", "27/10/2024/", "27-10-2024/", "10/2024/27/")
    keys = [f"hr/emp/{folder}{FIRST}" for folder in folders]
    found = {look(tmp_path / str(n), key).file.arrival for n, key in enumerate(keys)}
    assert len(found) == len(keys)


@pytest.mark.parametrize("name", ["CDC_TXN-20201117153046033.csv", "CDC_TXN-1.csv.gz"])
def test_a_transaction_file_is_refused_as_a_whole(tmp_path: Path, name: str) -> None:
    """Its rows are of many tables, and their columns have no names."""
    found = look(tmp_path, f"dms/cdc/{name}")
    assert [reject.reason for reject in found.rejects] == ["written_with_PreserveTransactions"]
    assert look(tmp_path / "other", f"dms/cdc/{name}", timed=False).rejects == ()


@pytest.mark.catalog
@pytest.mark.parametrize("name", ["aws_dms", "rows"])
def test_the_format_says_whether_names_are_times(tmp_path: Path, name: str) -> None:
    pipeline = open_shop(tmp_path, PIPELINE.replace("rows", name)).pipeline
    assert reading_of(pipeline).timed == (name == "aws_dms")
