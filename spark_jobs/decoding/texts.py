"""The text of every column in an event's images.

A lookup in a map compares the names before it, so a row of n columns takes n²/2 comparisons. Images
that have all of a table's columns, in one order, are the most frequent ones: their texts are taken
by place. Where a column was dropped at the source, none has all, and each text is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_UPDATE
from spark_jobs.decoding.halves import OWN
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn


def text_name(index: int, side: str = OWN) -> str:
    """Return the name of the column that has the text of a plan's column, in one half."""
    return f"_text{side}_{index}"


def with_texts(events: DataFrame, plan: TablePlan, sides: Iterable[str]) -> DataFrame:
    """Add, for each half, the texts of its image by place: those of the table's longest image."""
    longest = _longest_image(plan)
    return events.withColumns({_texts_name(side): _by_place(side, longest) for side in sides})


def column_texts(plan: TablePlan, side: str) -> list[Column]:
    """Return the text of every column, from `with_texts`; of a deleted row the key only, for other
    values may be made up."""
    deleted, image = F.col(f"deleted{side}"), F.col(f"image{side}")
    texts = {
        name: F.get(_texts_name(side), F.lit(i)) for i, name in enumerate(_longest_image(plan))
    }
    found = []
    for index, column in enumerate(plan.columns):
        text = column.text_in(image, texts)
        if plan.keyed and column.name not in plan.identity:
            text = F.when(~deleted, text)
        elif plan.keyed:
            text = F.coalesce(text, _unchanged(column, deleted))
        found.append(text.alias(text_name(index, side)))
    return found


def _texts_name(side: str) -> str:
    return f"_texts{side}"


def _longest_image(plan: TablePlan) -> tuple[str, ...]:
    """The names of the table's longest image, in order; () if it has none."""
    images = [image for image in plan.summary.images.values() if len(set(image)) == len(image)]
    return max(images, key=lambda image: (len(image), image), default=())


def _by_place(side: str, longest: Sequence[str]) -> Column:
    image = F.col(f"image{side}")
    if not longest:
        return F.array().cast("array<string>")
    has_all = F.map_keys(image) == F.array(*map(F.lit, longest))
    return F.when(has_all, F.map_values(image)).otherwise(F.array(*(image[n] for n in longest)))


def _unchanged(column: PlannedColumn, deleted: Column) -> Column:
    """Return a key column's text if the old row leaves it out because only other key
    columns changed."""
    old_half = deleted & (F.col("op") == OP_UPDATE)
    names_it = reduce(or_, (F.map_contains_key("before", name) for name in column.spellings))
    return F.when(old_half & ~names_it, column.text_in(F.col("after")))
