"""Canal JSON of Alibaba DTS: the form it had before 2022-03-20, and the vendor's examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import CanalOptions
from sluice.types.columns import ColumnType
from spark_jobs.formats.canal.decoder import Canal
from tests.spark.canal_messages import DRS, DRS_C, SWAPPED, Rows, decode, message, row

pytestmark = [pytest.mark.spark, pytest.mark.formats]
SWAPPED_MESSAGES: dict[str, Any] = {
    "insert": message("INSERT", row("1", "a")),
    "insert_in_old": message("INSERT", old=[row("1", "a")]),
    "insert_in_both": message("INSERT", row("1", "z"), old=[row("1", "a")]),
    "update": message("UPDATE", row("1", "a"), old=[row("1", "b")]),
    "update_partial": message("UPDATE", row("1", None), old=[{"v": "b"}]),
    "update_of_key": message("UPDATE", row("1", "a"), old=[row("2", "a")]),
    "delete": message("DELETE", old=[row("1", "a")]),
    "delete_many": message("DELETE", old=[row("1", "a"), row("2", "b")]),
    "init": message("INIT", row("1", "a")),
    "delete_in_data": message("DELETE", row("1", "a")),
    "update_without_old": message("UPDATE", row("1", "a")),
    "update_beside_null": message("UPDATE", row("1", "a"), old=[None]),
}


@pytest.fixture(scope="module")
def swapped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What DTS wrote before 2022-03-20."""
    return decode(spark, tmp_path_factory.mktemp("dts"), SWAPPED_MESSAGES, form=SWAPPED)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("insert", None, row("1", "a")),
        ("insert_in_old", None, row("1", "a")),
        ("insert_in_both", None, row("1", "a")),
        ("update", row("1", "a"), row("1", "b")),
        ("update_partial", row("1", None), row("1", "b")),
        ("update_of_key", row("1", "a"), row("2", "a")),
        ("delete", row("1", "a"), None),
        ("init", None, row("1", "a")),
    ],
)
def test_the_swapped_form(swapped: Rows, name: str, before: object, after: object) -> None:
    (only,) = swapped[name]
    assert (only["outcome"], only["before"], only["after"]) == ("event", before, after)


def test_swapped_form_rejects_rows_of_the_other_form(swapped: Rows) -> None:
    assert [r["before"]["id"] for r in swapped["delete_many"]] == ["1", "2"]
    reasons = {name: many[0]["reason"] for name, many in swapped.items() if many[0]["reason"]}
    assert reasons == {
        "delete_in_data": "other_form",
        "update_without_old": "image_missing",
        "update_beside_null": "image_missing",
    }


EXAMPLES = ("01-delete-before-20220320.json", "02-delete-since-20220320.json", "03-ddl.txt")


@pytest.mark.parametrize(
    ("form", "outcomes"),
    [
        (SWAPPED, ["delete", "other_form", "ddl"]),
        ("community", ["other_form", "delete", "ddl"]),
    ],
)
def test_the_vendors_examples(
    spark: SparkSession, fixtures: Path, tmp_path: Path, form: str, outcomes: list[str]
) -> None:
    folder = fixtures / "seed-examples" / "dts-canal-json"
    records = {name: _without_remarks((folder / name).read_text()) for name in EXAMPLES}
    found = decode(spark, tmp_path, records, form=form)
    assert [many[0]["reason"] or many[0]["op"] for many in found.values()] == outcomes
    assert found["03-ddl.txt"][0]["ddl"] == "eg:createxxx"
    deleted = found[EXAMPLES[0 if form == SWAPPED else 1]][0]
    image = {"shipping_type": "aaa"} if form == SWAPPED else {
        "id": "500000287", "shipping_type": None,
    }  # fmt: skip
    assert deleted["before"] == image
    assert deleted["table"] == "tablename"


def _without_remarks(text: str) -> Any:
    """The DDL example has a remark in Chinese behind each of its values."""
    members = re.findall(r'^\s*("\w+":(?:"[^"]*"|\w+))', text, re.MULTILINE)
    return json.loads(text) if "表示" not in text else json.loads("{" + ",".join(members) + "}")


def test_the_vendors_update_of_2021(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    path = fixtures / "canal-json/alibabaclouddocs-dts/dts-canal-update-2021.txt"
    (only,) = decode(spark, tmp_path, {"u": json.loads("{" + path.read_text())}, form=SWAPPED)["u"]
    assert only["before"] == {"id": "500000287", "shipping_type": None}
    assert only["after"] == {"id": "500000287", "shipping_type": "aaa"}


DRS_TYPES = {
    "id": "int", "at": "timestamp", "finer": "timestamp(3)", "b": "varbinary(9)", "t": "text",
}  # fmt: skip
DRS_ROW = {
    "id": "1", "at": "1624614713.201", "finer": "1", "b": "[106, 103, 0, -1]", "t": "[1, 2]",
}  # fmt: skip
NO_LISTS = ("[1-2]", "[+]", "[256]", "[-129]", "[3000000000]")  # of bytes: characters as they are
DRS_IMAGE = DRS_ROW | {"b": "jg\x00\xff"}


def drs(op: str, *data: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return message(op, *data, mysqlType=DRS_TYPES, **parts)


def test_huawei_drs(spark: SparkSession, tmp_path: Path) -> None:
    """An UPDATE as Canal has it, a DELETE as DTS once had it."""
    records = {
        "insert": drs("INSERT", DRS_ROW),
        "update": drs("UPDATE", DRS_ROW, old=[{"b": "[]"}]),
        "delete": drs("DELETE", old=[DRS_ROW]),
        "delete_in_data": drs("DELETE", DRS_ROW),
        "insert_in_old": drs("INSERT", old=[DRS_ROW]),
        "other_case": drs("INSERT", {"ID": "1", "B": "[106, 103]", "T": "[1, 2]"}),
        "capitals": message(
            "INSERT", DRS_ROW, mysqlType={name: kind.upper() for name, kind in DRS_TYPES.items()}
        ),
        "bounds": drs("INSERT", DRS_ROW | {"b": "[-128, 127, 128, 255]"}),
        **{text: drs("INSERT", DRS_ROW | {"b": text}) for text in NO_LISTS},
    }
    found = {name: rows[0] for name, rows in decode(spark, tmp_path, records, form=DRS).items()}
    assert found["insert"]["after"] == found["capitals"]["after"] == DRS_IMAGE
    assert (found["update"]["before"], found["update"]["after"]) == (
        DRS_IMAGE | {"b": ""},
        DRS_IMAGE,
    )
    assert (found["delete"]["op"], found["delete"]["before"]) == ("delete", DRS_IMAGE)
    strays = [found[name]["reason"] for name in ("delete_in_data", "insert_in_old")]
    assert strays == ["other_form", "other_form"]
    assert found["other_case"]["after"] == {"ID": "1", "B": "jg", "T": "[1, 2]"}
    assert found["bounds"]["after"]["b"] == "\x80\x7f\x80\xff"
    assert [found[text]["after"]["b"] for text in NO_LISTS] == [*NO_LISTS]
    for name in ("insert", "capitals"):
        described = Canal().columns(found[name]["types"], CanalOptions(form=DRS))
        told = {c.name: c.type for c in described}
        assert told["at"] == told["finer"] == ColumnType("timestamp", "s")
        assert told["b"].encoding == "latin1"


def test_huawei_drs_in_json_c(spark: SparkSession, tmp_path: Path) -> None:
    """A DELETE and times as Canal has them, and lists for bytes, of which geometry is too."""
    types = DRS_TYPES | {"g": "geometry"}
    written = DRS_ROW | {"at": "2021-06-25 17:51:53", "g": "[0, 1]"}
    image = written | {"b": "jg\x00\xff", "g": "\x00\x01"}
    records = {
        "insert": message("INSERT", written, mysqlType=types),
        "delete": message("DELETE", written, mysqlType=types),
        "stray": message("DELETE", old=[written], mysqlType=types),
    }
    found = {name: rows[0] for name, rows in decode(spark, tmp_path, records, form=DRS_C).items()}
    assert found["insert"]["after"] == image
    assert (found["delete"]["op"], found["delete"]["before"]) == ("delete", image)
    assert found["stray"]["reason"] == "other_form"
    told = {
        c.name: c.type for c in Canal().columns(found["insert"]["types"], CanalOptions(form=DRS_C))
    }
    assert (told["at"], told["g"].encoding) == (ColumnType("timestamp_ntz"), "latin1")


def test_tencent_ckafka(spark: SparkSession, tmp_path: Path) -> None:
    """As the vendor's page has its messages: no key, no types, whole rows in `old`, seconds."""
    told = {"id": 0, "pkNames": None, "mysqlType": None, "sqlType": None, "es": 1655812326}
    new, was = row(1, "b"), row(1, "a")
    records = {
        "insert": message("INSERT", was, **told),
        "update": message("UPDATE", new, old=[was], **told),
        "delete": message("DELETE", old=[new], **told),
    }
    found = {name: rows[0] for name, rows in decode(spark, tmp_path, records, form=DRS).items()}
    assert {name: (each["before"], each["after"]) for name, each in found.items()} == {
        "insert": (None, {"id": "1", "v": "a"}),
        "update": ({"id": "1", "v": "a"}, {"id": "1", "v": "b"}),
        "delete": ({"id": "1", "v": "b"}, None),
    }
    assert {each["source_ts"].isoformat() for each in found.values()} == {"2022-06-21T11:52:06"}


@pytest.mark.parametrize(
    ("form", "side", "other"), [(DRS, "old", "data"), ("community", "data", "old")]
)
def test_a_delete_of_flink_cdc(
    spark: SparkSession, tmp_path: Path, form: str, side: str, other: str
) -> None:
    """Before FLINK-36877 (apache/flink-cdc#3788), and since then."""
    told = {side: [row(8, "a")], other: None, "type": "DELETE", "database": None, "table": "t",
            "pkNames": ["id"], "ts": 0}  # fmt: skip
    (found,) = decode(spark, tmp_path, {"delete": told}, form=form)["delete"]
    assert (found["op"], found["before"], found["key"]) == ("delete", row("8", "a"), ["id"])


def test_an_inlong_message(spark: SparkSession, tmp_path: Path) -> None:
    """`updateBefore` for `old`, and a schema between database and table."""
    records = {
        "update": message("UPDATE", row("2", "b"), updateBefore=[row("1", "a")], schema="public"),
        "both": message("UPDATE", row("2", "b"), old=[row("1", "a")], updateBefore=[row("3", "c")]),
        "no_name": message("INSERT", row("1", "a"), schema={"type": "struct"}),
    }
    found = {name: rows[0] for name, rows in decode(spark, tmp_path, records).items()}
    update = found["update"]
    assert found["both"]["before"] == row("1", "a")
    assert (update["before"], update["after"]) == (row("1", "a"), row("2", "b"))
    assert (update["database"], update["schema"], update["table"]) == ("db", "public", "t")
    assert (found["no_name"]["outcome"], found["no_name"]["schema"]) == ("event", None)
