"""Confluent's wire format: a zero byte, the id of the schema in four bytes, and the Avro datum.

One scan reads all files, whatever the number of schemas, with a `from_avro` for each id. A look at
the messages' first bytes collects the ids before. Source: "Wire format" of Confluent's schema
registry.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from sluice.containers.avro_schemas import OTHER_KIND, Schemas
from sluice.errors import PlanError, TerminalError, landed_again
from sluice.manifest import SourceFile
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.avro import Node
from spark_jobs.formats.common.envelope import CORRUPT, WHOLE_TEXTS
from spark_jobs.formats.debezium import connect_avro
from spark_jobs.formats.debezium.connect_avro import Datum, Records
from spark_jobs.record_places import PLACE, text_lines

_NOT_WIRE: Final = "not_confluent_avro"
_NOT_AVRO: Final = "not_avro"
_UNKNOWN_SCHEMA: Final = "unknown_schema_id:"
_UNREADABLE_SCHEMA: Final = "unreadable_schema:"
"""Before the id of a schema that is no Avro, or that contains itself."""

_PARTS: Final = ("key", "value")
_HEAD_BYTES: Final = 5
_MOST_IDS: Final = 5000
_END: Final = bytes.fromhex("534c5549434500ff")
"""Appended to a datum: it is read back only if the schema consumed exactly the datum. `from_avro`
itself ignores bytes that are left."""


def records(messages: DataFrame, schemas: Schemas) -> Records:
    """Decode messages.

    `messages`: `key` and `value` (binary), `text`, `broken` (why it is no message), the place.
    """
    known = {part: _nodes(schemas, ids) for part, ids in _ids(messages).items()}
    nodes = {part: {i: n for i, n in of.items() if n is not None} for part, of in known.items()}
    unread = {part: [i for i, n in of.items() if n is None] for part, of in known.items()}
    return _decoded(messages, nodes, unread)


def _nodes(schemas: Schemas, ids: Iterable[int]) -> dict[int, Node | None]:
    """Return the schemas of those ids that the registry knows; None for one that is no Avro, or
    that contains itself."""
    listed = ((ident, schemas(ident)) for ident in ids)
    return {i: _node(i, documents) for i, documents in listed if documents is not None}


def _node(ident: int, documents: list[Any]) -> Node | None:
    if documents == OTHER_KIND:
        return None
    try:
        return connect_avro.resolve(documents, f"the schema with id {ident}")
    except TerminalError as error:
        if isinstance(error.__cause__, avro.ContainsItselfError):
            return None
        raise


def _ids(messages: DataFrame) -> dict[str, list[int]]:
    """Return the schema ids of keys and those of values; PlanError for more than a batch may have.

    Each is a request to the registry, and those that it knows are columns of the scan.
    """
    named = F.array(*(F.struct(F.lit(p).alias("part"), _schema_id(p).alias("id")) for p in _PARTS))
    each = messages.select(F.explode(named).alias("one")).select("one.*").where("id IS NOT NULL")
    ids = each.distinct().limit(_MOST_IDS + 1).collect()
    if len(ids) > _MOST_IDS:
        raise PlanError(
            f"the messages of the batch name more than {_MOST_IDS} schema ids: lower "
            "max_files_per_batch, or take the file that has damaged messages out of the landing "
            f"folder; {landed_again()}"
        )
    return {part: sorted(row["id"] for row in ids if row["part"] == part) for part in _PARTS}


def _schema_id(part: str) -> Column:
    """The id of a message's schema; NULL if it is not in the wire format.

    No registry assigns the id 0: it is Apicurio's own format, whose ids have eight bytes.
    """
    message = F.col(part)
    magic = F.hex(F.substring(message, 1, 1)) == "00"
    ident = F.conv(F.hex(F.substring(message, 2, 4)), 16, 10).cast("bigint")
    return F.when(magic & (F.length(message) >= _HEAD_BYTES), F.nullif(ident, F.lit(0)))


def _decoded(
    messages: DataFrame,
    schemas: Mapping[str, Mapping[int, Node]],
    unread: Mapping[str, Sequence[int]],
) -> Records:
    """Decode keys and values by their ids, each schema into a column of its own.

    A key in another format is ignored, or of an `unread` schema; one whose schema is missing is
    rejected.
    """
    value_id, key_id = _schema_id("value"), _schema_id("key")
    read_key = F.when(~_is_of(key_id, unread["key"]), key_id)
    with_ids = messages.withColumns({_id_of("key"): read_key, _id_of("value"): value_id})
    parsed = {
        _parsed(part, i): _from_wire(part, i, node)
        for part, nodes in schemas.items()
        for i, node in nodes.items()
    }
    rejected = F.coalesce(
        F.col("broken"),
        _rejected("value", schemas["value"], unread["value"]),
        F.nullif(_rejected("key", schemas["key"]), F.lit(_NOT_WIRE)),
    )
    return Records(
        with_ids.withColumns(parsed) if parsed else with_ids,
        keys=_data("key", schemas["key"]),
        values=_data("value", schemas["value"]),
        empty=F.col("value").isNull(),
        rejected=rejected,
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
    """The datum and the end mark; both NULL if it cannot be decoded."""
    end = {"name": "end", "type": {"type": "fixed", "name": "sluice.End", "size": len(_END)}}
    datum = {"name": "datum", "type": connect_avro.writer_schema(node)}
    schema = {"type": "record", "name": "sluice.Message", "fields": [datum, end]}
    message = F.col(part)
    bare = F.substring(message, F.lit(_HEAD_BYTES + 1), F.length(message))
    ended = F.when(F.col(_id_of(part)) == ident, F.concat(bare, F.lit(_END)))
    return from_avro(ended, json.dumps(schema), {"mode": "PERMISSIVE"})


def _is_of(ident: Column, ids: Collection[int]) -> Column:
    return ident.isin(*ids) if ids else F.lit(False)


def _rejected(part: str, nodes: Mapping[int, Node], unread: Sequence[int] = ()) -> Column:
    """Why a message cannot be decoded; NULL if it can be, or is null."""
    ident = F.col(_id_of(part))
    whole = [
        (ident == i) & F.coalesce(F.col(_parsed(part, i))["end"] == F.lit(_END), F.lit(False))
        for i in nodes
    ]
    result = F.when(F.col(part).isNull(), F.lit(None))
    result = result.when(ident.isNull(), F.lit(_NOT_WIRE))
    unknown = F.when(_is_of(ident, unread), F.lit(_UNREADABLE_SCHEMA)).otherwise(_UNKNOWN_SCHEMA)
    result = result.when(~_is_of(ident, nodes), F.concat(unknown, ident.cast("string")))
    return result.when(~reduce(or_, whole, F.lit(False)), F.lit(_NOT_AVRO))


def base64_lines(spark: SparkSession, files: tuple[SourceFile, ...]) -> DataFrame:
    """Read lines of base64: `{"key": …, "value": …}`, `KEY^VALUE` or VALUE; see `records`."""
    lines = text_lines(spark, files).withColumnRenamed("value", "text")
    split = lines.withColumn("line", _split_line())
    line = F.col("line")
    messages = {p: F.try_to_binary(line[p], F.lit("base64")) for p in _PARTS}
    broken = (
        F.when(line[CORRUPT].isNotNull(), F.lit("not_json"))
        .when(~line["unique"], F.lit("not_an_envelope"))
        .when(line["value"].isNotNull() & messages["value"].isNull(), F.lit("not_base64"))
    )
    named = (message.alias(part) for part, message in messages.items())
    return split.select(*named, "text", broken.alias("broken"), *PLACE)


def _split_line() -> Column:
    text = F.trim("text")
    schema = f"key string, value string, {CORRUPT} string"
    record = F.from_json(text, schema, {"columnNameOfCorruptRecord": CORRUPT, **WHOLE_TEXTS})
    parts = F.split(F.replace(text, F.lit('"'), F.lit("")), r"\^")
    # Base64 has no quotes, so names can be counted: of a repeated one the last would win.
    times = {n: F.regexp_count(text, F.lit(rf'"{n}"\s*:')) for n in _PARTS}
    unique = (times["value"] == 1) & (times["key"] <= 1)
    key, value = (F.get(parts, F.size(parts) - back) for back in (2, 1))
    bare = (key, F.nullif(value, F.lit("")), F.lit(None))
    return F.when(
        text.startswith("{"), _line(record["key"], record["value"], record[CORRUPT], unique)
    ).otherwise(_line(*bare, F.lit(True)))


def _line(key: Column, value: Column, corrupt: Column, unique: Column) -> Column:
    return F.struct(
        key.alias("key"), value.alias("value"), corrupt.cast("string").alias(CORRUPT),
        unique.alias("unique"),
    )  # fmt: skip
