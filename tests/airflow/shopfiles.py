"""The files of a Sluice project of one pipeline, `shop`, for an Airflow."""

from __future__ import annotations

PROJECT_YAML = """\
lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
spark: {master: "local[2]", conf: {spark.driver.memory: 1g}}
"""
PIPELINE_YAML = """\
name: shop
format: debezium
landing: {url: landing, pattern: "**/*.jsonl"}
namespace: shop
tables:
  public.orders: {key: [id]}
"""
