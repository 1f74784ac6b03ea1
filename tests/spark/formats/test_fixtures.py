"""Other projects' change data, from their files as they are to tables compared by meaning."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.result import BatchResult
from tests.conftest import SHARED
from tests.spark.envelopes import meaning
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

FIXTURES = SHARED / "fixtures"
# They may not be committed, so a clone may be without them; and of no cases pytest would only say
# that the set of parameters is empty.
# Others' data may not be committed: a clone without it beside it has nothing to read.
MISSING = f"the shared fixtures are not at {FIXTURES}"
FORMATS = {
    "debezium-json": "debezium",
    "debezium-avro": "debezium",
    "datastream-json": "datastream",
    "datastream-avro": "datastream",
    "streamx-json": "streamx",
    "canal-json": "canal",
    "aws-dms-json": "aws_dms",
    "maxwell-json": "maxwell",
    "ogg-json": "ogg",
    "dts-avro": "dts_avro",
}
# A table's name where the messages have none is the cases' own; some cases delete by tombstones.
OPTIONS = {"canal-json": {"table": "None.None"}, "debezium-avro": {"tombstones": "delete"}}
# Files that say a wrong type: seatunnel's ids like A101 are `int(11)` to it.
HINTS = {"mydb.project": {"columns": {"id": "string"}}}
# Formats whose files hold nothing but good records.
NO_BAD_RECORDS = ("debezium-json", "datastream-json", "datastream-avro", "streamx-json")
# Formats whose cases are in every run; of the others in that of `make test-formats`.
EVERY_RUN = ("debezium-json", "datastream-json", "streamx-json")
UNTOLD = re.compile(r"no key is known for table (\S+)\. ")


@dataclass
class Group:
    """Cases of one format without a table in common: one batch loads them all."""

    format: str
    documents: bool
    cases: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)


def grouped() -> Iterator[tuple[Group, dict[str, Any]]]:
    """Every case with the group that it is loaded in."""
    if not FIXTURES.is_dir():
        return
    groups: list[Group] = []
    for case in json.loads((FIXTURES / "MANIFEST.json").read_text())["cases"]:
        if case["format"] not in FORMATS:
            continue
        tables = {
            t["table"]: t for t in json.loads((FIXTURES / case["path"]).read_text())["tables"]
        }
        group = _group_for(groups, case, set(tables))
        group.cases.append(case)
        group.tables |= tables
        yield group, case


def _group_for(groups: list[Group], case: dict[str, Any], tables: set[str]) -> Group:
    documents = "mongo" in case["path"]
    for group in groups:
        same = (group.format, group.documents) == (case["format"], documents)
        if same and not tables & group.tables.keys():
            return group
    groups.append(Group(case["format"], documents))
    return groups[-1]


def _param(group: Group, case: dict[str, Any]) -> Any:
    """A test of its own."""
    name = case["path"].removesuffix(".expected.json")
    return pytest.param(group, case, id=name, marks=_apart(group.format))


def _apart(name: str) -> Any:
    return () if name in EVERY_RUN else pytest.mark.formats


CASES = list(grouped())
Loaded = tuple[Sandbox, BatchResult]


@pytest.fixture(scope="module")
def loaded(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Group], Loaded]:
    """Loads a group when the first of its cases asks for it."""
    groups = {id(group): group for group, _ in CASES}

    @cache
    def load(ident: int) -> Loaded:
        group = groups[ident]
        return load_group(spark, tmp_path_factory.mktemp(group.format), group)

    return lambda group: load(id(group))


def load_group(spark: SparkSession, root: Path, group: Group) -> Loaded:
    """Land the files in the order in which they arrived, and load them in one batch."""
    pipeline = {
        "format": FORMATS[group.format],
        "format_options": OPTIONS.get(group.format, {}),
        "table_name": "{database}_{schema}_{table}",
        "landing": {"url": "landing"},
    }
    tables = {name: HINTS.get(name, {}) for name in group.tables}
    if any(tables.values()):
        pipeline["tables"] = tables
    sandbox = Sandbox(spark, root, pipeline)
    for case_number, case in enumerate(group.cases):
        for number, name in enumerate(case["inputs"]):
            target = sandbox.landing / f"{case_number:03d}" / f"{number:03d}-{Path(name).name}"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(FIXTURES / name, target)
    manifest = sandbox.land()
    try:
        result = sandbox.stage_manifest(manifest)
    except PlanError as error:
        # Where the events carry no key, the expected file tells it.
        untold = UNTOLD.findall(str(error))
        if len(untold) != str(error).count("no key is known") or not untold:
            raise
        keys = {name: {"key": _key(group.tables[name])} for name in untold}
        sandbox.configure(**{**pipeline, "tables": tables | keys})
        result = sandbox.stage_manifest(manifest)
    sandbox.publish(result)
    return sandbox, result


def _key(table: dict[str, Any]) -> list[str]:
    """The expected key; none where the upstream test computes it from the columns."""
    return table["key"] if set(table["key"]) <= set(table["columns"]) else []


@pytest.fixture(scope="module", autouse=True)
def _there() -> None:
    # Others' data may not be committed: a clone without it beside it has nothing to read.
    if not FIXTURES.is_dir():
        pytest.skip(MISSING)


# Without cases pytest would skip it, too, but could not say what is missing.
@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize(("group", "case"), [_param(group, case) for group, case in CASES])
def test_tables(loaded: Callable[[Group], Loaded], group: Group, case: dict[str, Any]) -> None:
    sandbox, result = loaded(group)
    targets = {t.source: t.target.partition(".")[2] for t in result.tables}
    for table in json.loads((FIXTURES / case["path"]).read_text())["tables"]:
        name = targets[table["table"]]
        kinds = sandbox.types(name)
        wanted = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        rows = sandbox.rows(name)
        columns = set(table["columns"]) & kinds.keys()
        assert columns == set(table["columns"]), "missing columns"
        assert all(r[n] is None for r in rows for n in kinds.keys() - columns), "columns too many"
        assert _meanings(rows, columns, kinds) == _meanings(wanted, columns, kinds), name


# All of them would pass with nothing read.
@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("name", [pytest.param(n, marks=_apart(n)) for n in NO_BAD_RECORDS])
def test_no_record_is_bad(loaded: Callable[[Group], Loaded], name: str) -> None:
    groups = {id(g): g for g, _ in CASES if g.format == name}.values()
    assert groups
    for group in groups:
        sandbox, result = loaded(group)
        assert total(result).quarantined == 0, (group.format, sandbox.quarantined())
        assert total(result).balanced


def _meanings(
    rows: list[dict[str, Any]], columns: set[str], kinds: dict[str, str]
) -> list[list[tuple[str, str]]]:
    return sorted([(n, _meaning(row[n], kinds[n])) for n in sorted(columns)] for row in rows)


def _meaning(value: Any, kind: str) -> str:
    """A value without its spelling, by the type of the column that it is in."""
    if isinstance(value, bool):
        return repr(Decimal(value))
    if value is None or isinstance(value, Decimal):
        return meaning(None if value is None else str(value))
    if kind == "binary":
        return repr(value if isinstance(value, bytes) else _bytes(value))
    if kind in ("float", "double"):
        number = float(value)
        return repr(struct.unpack("f", struct.pack("f", number))[0] if kind == "float" else number)
    if kind.startswith("timestamp"):
        return repr(_instant(value))
    if kind == "date":
        return repr(_instant(value).date())
    text = value if isinstance(value, str) else json.dumps(value)
    if text[:1] in ("{", "["):
        return json.dumps(json.loads(text), sort_keys=True)
    return meaning(value)


def _bytes(value: Any) -> bytes:
    """Bytes as the expected files have them; in Canal's each is a character."""
    return value.encode("latin-1") if isinstance(value, str) else base64.b64decode(value["base64"])


def _instant(value: Any) -> datetime:
    if isinstance(value, int):
        # Milliseconds or microseconds as the schema says: before the year 5138 one makes sense.
        micros = value if abs(value) > 10**14 else value * 1000
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
