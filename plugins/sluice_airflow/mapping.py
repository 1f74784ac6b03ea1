"""The number of batches that one run loads: each is a mapped task, and Airflow limits
their number."""

from __future__ import annotations

import logging

from airflow.sdk.configuration import conf

from sluice.objects.batch_files import batch_of
from sluice.operations.context import Context

log = logging.getLogger(__name__)


def mappable(ctx: Context, manifests: list[str]) -> list[str]:
    """Return the batches that this run loads, as many as Airflow can map over.

    Half-published batches come first, since nothing else can be loaded before they are complete.
    Then come batches without an attempt: otherwise ones that fail every time would keep them from
    ever being loaded. The rest stays landed for later runs.
    """
    most = conf.getint("core", "max_map_length")
    if len(manifests) <= most:
        return manifests
    log.warning(
        "%s batches have landed; this run loads %s, as many as Airflow maps over ([core]"
        " max_map_length). The others wait: later runs take them over, but for those of a reprocess"
        " or of a run with Tables. To load them now: sluice run %s",
        len(manifests), most, ctx.pipeline.name,
    )  # fmt: skip
    rows = ctx.ledger.batches.all()
    halfway = {row.batch_id for row in rows if row.halfway}
    tried = {row.batch_id for row in rows if row.attempt}

    def turn(key: str) -> tuple[bool, bool, str]:
        batch = batch_of(key)
        return batch not in halfway, batch in tried, batch

    return sorted(manifests, key=turn)[:most]
