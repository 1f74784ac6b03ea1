"""Confluent's wire format: a zero byte, the id of the schema in four bytes, and the Avro datum.

Every file is read once, whatever number of schemas its messages have: one scan for the files with
the same set of ids, in which each id has its `from_avro`. Which ids there are takes a look at the
messages' heads first. Source: "Wire format" of Confluent's schema registry.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from sluice.avroschemas import Schemas
from sluice.manifest import SourceFile
from spark_jobs.canonical import place
from spark_jobs.formats import connect_avro
from spark_jobs.formats.avro import Node
from spark_jobs.formats.connect_avro import Datum, Records
from spark_jobs.formats.envelope import CORRUPT

NOT_WIRE: Final = "not_confluent_avro"
NOT_AVRO: Final = "not_avro"
UNKNOWN_SCHEMA: Final = "unknown_schema_id:"
Carrier = Callable[[tuple[SourceFile, ...]], DataFrame]
"""Files → messages: `key` and `value` (binary), `text`, `broken` (why it is none), place."""

_HEAD_BYTES: Final = 5
_END: Final = bytes.fromhex("534c5549434500ff")
"""Put behind a datum: only where its schema takes up all of it, neither more nor less, is this
found again. `from_avro` itself passes over bytes that are left."""


def records(
    carrier: Carrier, files: tuple[SourceFile, ...], open_schemas: Callable[[], Schemas]
) -> list[Records]:
    """Decoded messages, by the set of schemas that files have."""
    schemas, used = open_schemas(), _ids_by_file(carrier(files))
    nodes = {ident: _node(schemas, ident) for ident in sorted(set().union(*used.values()))}
    groups: dict[frozenset[int], list[SourceFile]] = defaultdict(list)
    for file in files:
        groups[frozenset(i for i in used[file.url] if nodes[i] is not None)].append(file)
    return [
        _decoded(carrier(tuple(group)), {i: n for i in sorted(ids) if (n := nodes[i])})
        for ids, group in groups.items()
    ]


def _node(schemas: Schemas, ident: int) -> Node | None:
    documents = schemas(ident)
    return documents and connect_avro.resolve(documents, f"the schema with id {ident}")


def _ids_by_file(messages: DataFrame) -> dict[str, set[int]]:
    ids = F.array_compact(F.array(_schema_id("key"), _schema_id("value")))
    found: dict[str, set[int]] = defaultdict(set)
    for row in messages.select("file", F.explode(ids).alias("id")).distinct().collect():
        found[row["file"]].add(row["id"])
    return found


def _schema_id(part: str) -> Column:
    """NULL where the message does not begin as the wire format does."""
    message = F.col(part)
    magic = F.hex(F.substring(message, 1, 1)) == "00"
    ident = F.conv(F.hex(F.substring(message, 2, 4)), 16, 10).cast("bigint")
    return F.when(magic & (F.length(message) >= _HEAD_BYTES), ident)


def _decoded(messages: DataFrame, nodes: Mapping[int, Node]) -> Records:
    """Keys and values by their ids, each schema in a column of its own.

    A key in another format tells nothing and does no harm; one whose schema is missing is refused.
    """
    parts = ("key", "value")
    known = messages.withColumns({_id_of(part): _schema_id(part) for part in parts})
    rows = known.withColumns(
        {_parsed(part, i): _from_wire(part, i, n) for i, n in nodes.items() for part in parts}
    )
    refused = F.coalesce(
        F.col("broken"),
        _refused("value", nodes),
        F.nullif(_refused("key", nodes), F.lit(NOT_WIRE)),
    )
    return Records(
        rows,
        keys=_data("key", nodes),
        values=_data("value", nodes),
        empty=F.col("value").isNull(),
        refused=refused,
        raw=F.col("text"),
    )


def _data(part: str, nodes: Mapping[int, Node]) -> list[Datum]:
    return [
        Datum(F.col(_id_of(part)) == i, F.col(_parsed(part, i))["datum"], node)
        for i, node in nodes.items()
    ]


def _id_of(part: str) -> str:
    return f"_{part}_id"


def _parsed(part: str, ident: int) -> str:
    return f"_{part}_{ident}"


def _from_wire(part: str, ident: int, node: Node) -> Column:
    """The datum and what was put behind it, all NULL where it cannot be decoded."""
    end = {"name": "end", "type": {"type": "fixed", "name": "sluice.End", "size": len(_END)}}
    datum = {"name": "datum", "type": connect_avro.writer_schema(node)}
    schema = {"type": "record", "name": "sluice.Message", "fields": [datum, end]}
    message = F.col(part)
    bare = F.substring(message, F.lit(_HEAD_BYTES + 1), F.length(message))
    ended = F.when(F.col(_id_of(part)) == ident, F.concat(bare, F.lit(_END)))
    return from_avro(ended, json.dumps(schema), {"mode": "PERMISSIVE"})


def _refused(part: str, nodes: Mapping[int, Node]) -> Column:
    """Why a message cannot be decoded; NULL where it can, or is null."""
    ident = F.col(_id_of(part))
    whole = [
        (ident == i) & F.coalesce(F.col(_parsed(part, i))["end"] == F.lit(_END), F.lit(False))
        for i in nodes
    ]
    result = F.when(F.col(part).isNull(), F.lit(None))
    result = result.when(ident.isNull(), F.lit(NOT_WIRE))
    result = result.when(~ident.isin(*nodes), F.concat(F.lit(UNKNOWN_SCHEMA), ident.cast("string")))
    return result.when(~_any(whole), F.lit(NOT_AVRO))


def _any(conditions: Iterable[Column]) -> Column:
    found = F.lit(False)
    for condition in conditions:
        found |= condition
    return found


def base64_lines(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    """Messages in base64 on lines: `{"key": …, "value": …}`, `KEY^VALUE`, VALUE; see `Carrier`."""
    lines = spark.read.text([f.url for f in files]).where(F.trim("value") != "")
    split = lines.select(F.col("value").alias("text"), *place()).withColumn("line", _split_line())
    line = F.col("line")
    messages = {p: F.try_to_binary(line[p], F.lit("base64")) for p in ("key", "value")}
    broken = (
        F.when(line[CORRUPT].isNotNull(), F.lit("not_json"))
        .when(~line["told"], F.lit("not_an_envelope"))
        .when(line["value"].isNotNull() & messages["value"].isNull(), F.lit("not_base64"))
    )
    named = (message.alias(part) for part, message in messages.items())
    return split.select(*named, "text", broken.alias("broken"), "file", "block", "ordinal")


def _split_line() -> Column:
    text = F.trim("text")
    schema = f"key string, value string, {CORRUPT} string"
    record = F.from_json(text, schema, {"columnNameOfCorruptRecord": CORRUPT})
    parts = F.split(F.replace(text, F.lit('"'), F.lit("")), r"\^")
    # Base64 has no quotes, so names are counted: of one that comes twice the last would win.
    times = {n: F.regexp_count(text, F.lit(rf'"{n}"\s*:')) for n in ("key", "value")}
    told = (times["value"] == 1) & (times["key"] <= 1)
    key, value = (F.get(parts, F.size(parts) - back) for back in (2, 1))
    bare = (key, F.nullif(value, F.lit("")), F.lit(None))
    return F.when(
        text.startswith("{"), _line(record["key"], record["value"], record[CORRUPT], told)
    ).otherwise(_line(*bare, F.lit(True)))


def _line(key: Column, value: Column, corrupt: Column, told: Column) -> Column:
    return F.struct(
        key.alias("key"), value.alias("value"), corrupt.cast("string").alias(CORRUPT),
        told.alias("told"),
    )  # fmt: skip
