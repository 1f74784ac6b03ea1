"""verify, the stage: every target beside what its changelog says it must hold."""

from __future__ import annotations

from sluice.context import Context
from sluice.errors import VerifyFailed
from sluice.submit import ENTRY_POINTS, submit
from sluice.verification import KINDS, Comparison, Verification


def verify(ctx: Context, table: str | None = None) -> Verification:
    """Run the driver and hand back what it found, differences among it.

    Raises TerminalError for a table that the pipeline has not, TransientError while a batch is
    being published.
    """
    chosen = ("--table", table) if table else ()
    ctx.say(f"verify: {ctx.pipeline.name}, {table or 'all tables'}")
    told = submit(ctx.project, ENTRY_POINTS / "verify.py", "--pipeline", ctx.pipeline.name, *chosen)
    return Verification.from_json(told)


def refuse_differences(found: Verification) -> None:
    """Raises VerifyFailed naming every table that differs, and what to do."""
    wrong = [c for table in found.tables for c in table.comparisons if not c.agrees]
    if not wrong:
        return
    listed = "; ".join(f"{c.table}: {in_words(c)}" for c in wrong)
    raise VerifyFailed(
        f"pipeline {found.pipeline}: {listed}. The changelog says otherwise: see which snapshots "
        "no batch wrote, and put main back to before them; where there is none, a rule of the "
        "merge is broken: keep the lake as it is and report it"
    )


def in_words(comparison: Comparison) -> str:
    """How many keys differ in which way."""
    kinds = (f"{comparison.kinds[k]:,} {k}" for k in KINDS if comparison.kinds.get(k))
    return ", ".join(kinds) or "nothing differs"
