"""The number of batches that one run loads: each is a mapped task, and Airflow limits
their number."""

from __future__ import annotations

import logging

from airflow.sdk.configuration import conf

from sluice.objects.batch_files import batch_of
from sluice.operations.context import Context
from sluice.operations.loading_order import in_turn, tried

log = logging.getLogger(__name__)


def mappable(ctx: Context, manifests: list[str]) -> list[str]:
    """Return the batches that this run loads, in turn (`in_turn`), as many as Airflow can map over.

    Of more, half-published batches and such that no run has tried come first, then the first by
    their ids. The rest stays landed for later runs.
    """
    before, most = tried(ctx), conf.getint("core", "max_map_length")
    if len(manifests) <= most:
        return in_turn(ctx, manifests, before)
    log.warning(
        "%s batches have landed; this run loads %s, as many as Airflow maps over ([core]"
        " max_map_length). The others wait: later runs take them over, but for those of a reprocess"
        " or of a run with Tables. To load them now: sluice run %s",
        len(manifests), most, ctx.pipeline.name,
    )  # fmt: skip
    return in_turn(ctx, sorted(manifests, key=batch_of), before)[:most]
