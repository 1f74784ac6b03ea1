"""The cluster policies that the page about Airflow shows, on the DAGs as Airflow parses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
PAGE = Path(__file__).resolve().parents[2] / "docs" / "airflow.md"


def test_the_documented_policies_bound_drivers_and_call_somebody(
    parsed: Callable[[], dict[str, Any]],
) -> None:
    (code,) = re.findall(r"^```python\n(def task_policy.*?)^```$", PAGE.read_text(), re.M | re.S)
    policies: dict[str, Any] = {"notify": print}
    exec(code, policies)
    dags = parsed()
    for dag in dags.values():
        policies["dag_policy"](dag)
        for task in dag.tasks:
            policies["task_policy"](task)
    pooled = {t.task_id for dag in dags.values() for t in dag.tasks if t.pool == "spark"}
    assert pooled == {"batch.load", "maintain"}
    assert {name for name, dag in dags.items() if not dag.has_on_failure_callback} == set()
