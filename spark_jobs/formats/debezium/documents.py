"""MongoDB's images by Debezium: whole documents as JSON text, or the changed fields alone.

Source: the connector's reference, "change events": with `capture.mode=change_streams` an update has
no `after`, only `updateDescription`. Version 1 has `patch` instead, whose operators are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from spark_jobs.canonical import IMAGE_TYPE, all_but
from spark_jobs.formats.common.envelope import WHOLE_TEXTS, repeats
from spark_jobs.formats.common.scans import union
from spark_jobs.formats.debezium.extended_json import one_spelling

SCALARS: Final = ("updateDescription", "patch")
"""Fields to read beside those of every envelope."""
PARTIAL: Final = "partial"
IGNORED_AS: Final = "ignored_as"
_ADDED: Final = {PARTIAL: "array<string>", IGNORED_AS: "string"}
_NO_CHANGE: Final = "no_change_told"
_GONE: Final = "document_gone"
IGNORE_REASONS: Final = (_NO_CHANGE, _GONE)
"""Reasons to ignore an update without its document: it changes nothing, or its delete follows."""
_DESCRIPTION: Final = "updatedFields string, removedFields array<string>, truncatedArrays string"
_KEY: Final = "_id"
_TEXT_OF_OBJECT: Final = r'"{\"$'
"""The beginning of a string that looks like extended JSON; in an object the quotes have no
backslash."""
_MARK: Final = "\ufffe"
"""Marks such a string while it is read; a noncharacter, so in no text."""
_WRAPPED: Final = (
    r'^\{"\$(?:numberLong|numberInt|numberDouble|numberDecimal|oid|date)":'
    r'(?:\{"\$numberLong":)?(?:"([^"]*)"|(-?\d+))\}{1,2}$'
    r'|^"(NaN|-?Infinity)"$'
)
"""Extended JSON, and NaN and the infinities, which Spark returns in quotes."""


def with_rows(flat: DataFrame) -> DataFrame:
    """Turn documents into rows, whose key is `_id`; the record's own key calls it `id`.

    A delete without its row, and any tombstone, takes the record's key as its row. PARTIAL: the
    fields that an update without its document carries. IGNORED_AS: the one of IGNORE_REASONS that
    an update without its document may have; see `union_of`.
    """
    before, after = (_document(F.col(c)) for c in ("before", "after"))
    ident = _document(F.concat(F.lit('{"_id":'), F.col("key")["id"], F.lit("}")))
    bare = (F.col("op") == "u") & F.col("after").isNull() & F.col("patch").isNull()
    parsed = flat.withColumns({"_ident": ident, "_change": F.when(bare, _change())})
    named = parsed.withColumn("_names", _names())
    keyed = F.col("op").isNotNull() | F.col("_ident").isNotNull()
    empty = F.col("op").isNull() & F.col("source").isNull()
    deleted = F.when((F.col("op") == "d") | empty, F.col("_ident"))
    columns = {
        "before": F.coalesce(before, deleted),
        "after": F.coalesce(after, _changed_row()),
        "key": F.when(keyed, F.array(F.lit(_KEY))),
        PARTIAL: F.when(_is_plain(), all_but(F.col("_names"))),
        IGNORED_AS: F.when(bare, F.when(_changes_nothing(), _NO_CHANGE).otherwise(_GONE)),
    }
    return named.withColumns(columns).drop("_ident", "_change", "_names", *SCALARS)


def union_of(scans: Sequence[DataFrame], options: DebeziumOptions) -> DataFrame:
    """Union the scans, with IGNORED_AS for the updates that are ignored and no others.

    With `capture.mode=change_streams_update_full` an update without its document was overtaken by
    its delete; events do not contain the mode, so the option `update_without_document` does.
    """
    flat = union(list(map(_without_rows, scans)))
    if options.update_without_document == "ignore":
        return flat
    return flat.withColumn(IGNORED_AS, F.nullif(F.col(IGNORED_AS), F.lit(_GONE)))


def _without_rows(flat: DataFrame) -> DataFrame:
    """Add the columns of `with_rows` to files without documents."""
    missing = {n: F.lit(None).cast(t) for n, t in _ADDED.items() if n not in flat.columns}
    return flat.withColumns(missing) if missing else flat


def _document(text: Column) -> Column:
    """A document's top-level fields; numbers, ids and times of extended JSON as their own text.

    Images, keys and changed fields all get one spelling, see `extended_json`. The document's own
    strings stay as they are, whatever they look like.
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
    """An update's description: `set` fields with new values, `removed` fields, `cut` arrays."""
    update = F.from_json("updateDescription", _DESCRIPTION, WHOLE_TEXTS)
    fields = F.coalesce(update["updatedFields"], F.lit("{}"))
    removed = F.coalesce(update["removedFields"], F.array().cast("array<string>"))
    cut = F.coalesce(update["truncatedArrays"], F.lit("[]"))
    return F.struct(
        _document(fields).alias("set"), removed.alias("removed"), (cut != "[]").alias("cut")
    )


def _names() -> Column:
    change = F.col("_change")
    return F.concat(F.map_keys("_ident"), F.map_keys(change["set"]), change["removed"])


def _is_plain() -> Column:
    """Whether a change has whole fields only; a dotted path is a part of a field."""
    names, change = F.col("_names"), F.col("_change")
    partly = F.exists(names, lambda name: name.isNull() | name.contains("."))
    return (F.size(names) > 1) & ~change["cut"] & ~partly & ~repeats(names) & _is_readable()


def _is_readable() -> Column:
    """Whether `updateDescription` has the shape that the connector writes."""
    text = F.col("updateDescription")
    removed = F.get_json_object(text, "$.removedFields")
    odd = removed.isNotNull() & ~removed.startswith("[")
    return text.isNull() | (text.startswith("{") & ~odd)


def _changes_nothing() -> Column:
    change = F.col("_change")
    nothing = (F.size(change["set"]) == 0) & (F.size(change["removed"]) == 0) & ~change["cut"]
    return nothing & _is_readable()


def _changed_row() -> Column:
    """The known part of an updated row: its key, new values, and NULL for removed fields."""
    change = F.col("_change")
    gone = F.array_repeat(F.lit(None).cast("string"), F.size(change["removed"]))
    values = F.concat(F.map_values("_ident"), F.map_values(change["set"]), gone)
    return F.when(_is_plain(), F.map_from_arrays("_names", values))
