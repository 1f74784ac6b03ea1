"""What a session remembers of the JVM, so that expressions are built without searching jars."""

from __future__ import annotations

import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def expressions() -> list[Column]:
    a, b = F.col("a"), F.col("b")
    return [
        F.when(a.isNull() & ~b, F.lit(1)).otherwise(F.coalesce(b, a + 1)),
        F.struct("a", b.cast("int").alias("c")),
        F.expr("a <=> b"),
        F.transform("a", lambda each: F.concat(each, b.substr(1, 2))),
        a.isin("x", "y"),
        F.sum(a).over(Window.partitionBy("b").orderBy(a.desc())),
    ]


def test_expressions_look_up_no_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    look_up = JVMView.__getattr__

    def noting(self: JVMView, name: str) -> object:
        asked.append(name)
        return look_up(self, name)

    monkeypatch.setattr(JVMView, "__getattr__", noting)
    assert len(expressions()) == 6
    assert asked == []
