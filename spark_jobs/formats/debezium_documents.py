"""MongoDB's images by Debezium: documents as JSON text, whole or what an update changed of them.

Source: the connector's reference, "change events": with `capture.mode=change_streams` an update has
no `after`, only `updateDescription`. Version 1 had `patch` instead, whose operators are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from spark_jobs.canonical import ALL_BUT, IMAGE_TYPE
from spark_jobs.formats.envelope import WHOLE_TEXTS, repeats, union
from spark_jobs.formats.extended_json import one_spelling

SCALARS: Final = ("updateDescription", "patch")
"""What is read beside the fields of every envelope."""
PARTIAL: Final = "partial"
UNTOLD: Final = "untold"
_ADDED: Final = {PARTIAL: "array<string>", UNTOLD: "string"}
_NO_CHANGE: Final = "no_change_told"
_GONE: Final = "document_gone"
UNTOLD_REASONS: Final = (_NO_CHANGE, _GONE)
"""Why an update without its document is ignored: it tells nothing, or its delete follows."""
_DESCRIPTION: Final = "updatedFields string, removedFields array<string>, truncatedArrays string"
_KEY: Final = "_id"
_TEXT_OF_OBJECT: Final = r'"{\"$'
"""How a text that looks like a value of extended JSON begins in its document; an object has no
backslashes before its quotes."""
_MARK: Final = "\ufffe"
"""Stands before such a text while it is read; it is no character of any text."""
_WRAPPED: Final = (
    r'^\{"\$(?:numberLong|numberInt|numberDouble|numberDecimal|oid|date)":'
    r'(?:\{"\$numberLong":)?(?:"([^"]*)"|(-?\d+))\}{1,2}$'
    r'|^"(NaN|-?Infinity)"$'
)
"""Extended JSON, and the numbers that JSON has no words for, which Spark gives in quotes."""


def with_rows(flat: DataFrame) -> DataFrame:
    """Rows from documents, whose key is `_id`; the record's own key calls it `id`.

    A delete may come without its row, and a tombstone does: then the record's key is all of it
    there is. PARTIAL names the fields that an update without its row carries; UNTOLD, of every
    update without its row, which of UNTOLD_REASONS it may have, see `union_of`.
    """
    before, after = (_document(F.col(c)) for c in ("before", "after"))
    ident = _document(F.concat(F.lit('{"_id":'), F.col("key")["id"], F.lit("}")))
    bare = (F.col("op") == "u") & F.col("after").isNull() & F.col("patch").isNull()
    parsed = flat.withColumns({"_ident": ident, "_change": F.when(bare, _change())})
    named = parsed.withColumn("_names", _names())
    told = F.col("op").isNotNull() | F.col("_ident").isNotNull()
    empty = F.col("op").isNull() & F.col("source").isNull()
    deleted = F.when((F.col("op") == "d") | empty, F.col("_ident"))
    columns = {
        "before": F.coalesce(before, deleted),
        "after": F.coalesce(after, _changed_row()),
        "key": F.when(told, F.array(F.lit(_KEY))),
        PARTIAL: F.when(_is_plain(), F.concat(F.array(F.lit(ALL_BUT)), "_names")),
        UNTOLD: F.when(bare, F.when(_says_nothing(), _NO_CHANGE).otherwise(_GONE)),
    }
    return named.withColumns(columns).drop("_ident", "_change", "_names", *SCALARS)


def union_of(scans: Sequence[DataFrame], options: DebeziumOptions) -> DataFrame:
    """The scans as one, with UNTOLD of the updates that are ignored and of no others.

    With `capture.mode=change_streams_update_full` an update without its document was overtaken by
    its delete, and the option `update_without_document` may say so: nothing in an event tells the
    mode.
    """
    flat = union(list(map(_without_rows, scans)))
    if options.update_without_document == "ignore":
        return flat
    return flat.withColumn(UNTOLD, F.nullif(F.col(UNTOLD), F.lit(_GONE)))


def _without_rows(flat: DataFrame) -> DataFrame:
    """The columns that `with_rows` adds, for files beside that have no documents."""
    missing = {n: F.lit(None).cast(t) for n, t in _ADDED.items() if n not in flat.columns}
    return flat.withColumns(missing) if missing else flat


def _document(text: Column) -> Column:
    """A document's top-level fields; numbers, ids and times of extended JSON as their own text.

    In one spelling, be it an image, a record's key or what an update changed: see `extended_json`.
    A text of the document's stays as it is, whatever it looks like.
    """
    start = _TEXT_OF_OBJECT
    marked = F.replace(text, F.lit(start), F.lit(start.replace("{", _MARK + "{")))

    def own_text(_: Column, value: Column) -> Column:
        plain = F.replace(value, F.lit(_MARK), F.lit(""))
        unwrapped = F.regexp_replace(value, _WRAPPED, "$1$2$3")
        return F.when(value.contains(_MARK) & text.contains(start), plain).otherwise(unwrapped)

    whole = F.from_json(one_spelling(marked), IMAGE_TYPE, WHOLE_TEXTS)
    return F.transform_values(whole, own_text)


def _change() -> Column:
    """What an update says that it changed: fields with their new values, fields it took away."""
    told = F.from_json("updateDescription", _DESCRIPTION, WHOLE_TEXTS)
    fields = F.coalesce(told["updatedFields"], F.lit("{}"))
    removed = F.coalesce(told["removedFields"], F.array().cast("array<string>"))
    cut = F.coalesce(told["truncatedArrays"], F.lit("[]"))
    return F.struct(
        _document(fields).alias("set"), removed.alias("removed"), (cut != "[]").alias("cut")
    )


def _names() -> Column:
    change = F.col("_change")
    return F.concat(F.map_keys("_ident"), F.map_keys(change["set"]), change["removed"])


def _is_plain() -> Column:
    """Whether a change is of whole fields alone; a dotted path is of a part of one."""
    names, change = F.col("_names"), F.col("_change")
    partly = F.exists(names, lambda name: name.isNull() | name.contains("."))
    return (F.size(names) > 1) & ~change["cut"] & ~partly & ~repeats(names) & _is_readable()


def _is_readable() -> Column:
    """Whether what an update says of its change has the shape that the connector gives it."""
    text = F.col("updateDescription")
    removed = F.get_json_object(text, "$.removedFields")
    odd = removed.isNotNull() & ~removed.startswith("[")
    return text.isNull() | (text.startswith("{") & ~odd)


def _says_nothing() -> Column:
    change = F.col("_change")
    nothing = (F.size(change["set"]) == 0) & (F.size(change["removed"]) == 0) & ~change["cut"]
    return nothing & _is_readable()


def _changed_row() -> Column:
    """What an update tells of its row: the key, new values, and NULL for what it took away."""
    change = F.col("_change")
    gone = F.array_repeat(F.lit(None).cast("string"), F.size(change["removed"]))
    values = F.concat(F.map_values("_ident"), F.map_values(change["set"]), gone)
    return F.when(_is_plain(), F.map_from_arrays("_names", values))
