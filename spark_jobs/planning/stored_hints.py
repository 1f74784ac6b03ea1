"""The hints by which a target's rows were read: its property `sluice.hints`, JSON by column.

Publish sets it, and a rollback restores it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from spark_jobs.planning.plan import TablePlan


def read_hints(text: str | None) -> dict[str, str]:
    """Return the hints of a property, by column; {} for a table that has none yet."""
    return dict(json.loads(text or "{}"))


def hints_to_store(plan: TablePlan, before: str | None) -> str | None:
    """Return the property once the plan's rows are stored; None leaves it as it is.

    The hint of a column that has none any more stays: rows were read by it. A plan without records,
    a rebuild's, reads none.
    """
    hints = plan.config.columns
    spelled = {name.lower() for name in hints}
    earlier = {n: hint for n, hint in read_hints(before).items() if n.lower() not in spelled}
    known: Mapping[str, str] = {**earlier, **hints}
    if not plan.summary.records or not known:
        return None
    text = json.dumps(known, ensure_ascii=False, sort_keys=True)
    return None if text == before else text
