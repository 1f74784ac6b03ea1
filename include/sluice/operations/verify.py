"""verify: compare every target with its changelog, or with its source."""

from __future__ import annotations

from typing import Final

from sluice.config.live_source import LiveSource
from sluice.errors import VerifyFailedError
from sluice.operations.context import Context
from sluice.operations.refolding import named_targets
from sluice.spark_submit.submit import ENTRY_POINTS, submit
from sluice.verification import KINDS, Comparison, Verification

_BESIDE_CHANGELOGS: Final = (
    "The changelog has other rows: see which snapshots no batch wrote, and set main back to before "
    "them; if there are none, Sluice has a fault: keep the lake as it is and report it"
)
_BESIDE_SOURCE: Final = (
    "The source has other rows: changes after a table's newest event, which the report "
    "names, are reported until they are loaded. For other differences run verify without --source: "
    "if the targets agree with their changelogs, the source did not send the changes"
)


def verify(
    ctx: Context, table: str | None = None, source: LiveSource | None = None
) -> Verification:
    """Run the driver; return its report, differences included.

    With a source the targets are compared with its tables instead of their changelogs. Raises
    TerminalError for a table that pipeline or source does not have, TransientError while a batch
    is being published.
    """
    if table is not None:
        named_targets(ctx, table)
    chosen = ["--table", table] if table else []
    chosen += source.arguments if source else ()
    ctx.say(f"verify: {ctx.pipeline.name}, {table or 'all tables'}")
    report = submit(
        ctx.project, ENTRY_POINTS / "verify.py", "--pipeline", ctx.pipeline.name, *chosen
    )
    return Verification.from_json(report)


def refuse_differences(found: Verification) -> None:
    """Raise VerifyFailedError if a table differs, naming all that do, and what to do."""
    wrong = [c for table in found.tables for c in table.comparisons if not c.agrees]
    if not wrong:
        return
    listed = "; ".join(f"{c.table}: {differences_in_words(c)}" for c in wrong)
    advice = _BESIDE_CHANGELOGS if found.source is None else _BESIDE_SOURCE
    raise VerifyFailedError(f"pipeline {found.pipeline}: {listed}. {advice}")


def differences_in_words(comparison: Comparison) -> str:
    """Return how many keys differ in which way, as text."""
    kinds = (f"{comparison.kinds[k]:,} {k}" for k in KINDS if comparison.kinds.get(k))
    return ", ".join(kinds) or "nothing differs"
