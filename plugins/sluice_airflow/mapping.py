"""How many batches one run loads: each is a mapped task, and Airflow refuses too long a list."""

from __future__ import annotations

import logging

from airflow.sdk.configuration import conf

from sluice.objects.batchfiles import batch_of

log = logging.getLogger(__name__)


def mappable(pipeline: str, manifests: list[str]) -> list[str]:
    """The batches that this run loads: the first by their ids, where Airflow cannot map over all.

    The others stay landed, for later runs to take over.
    """
    most = conf.getint("core", "max_map_length")
    if len(manifests) <= most:
        return manifests
    log.warning(
        "%s batches have landed; this run loads %s, as many as Airflow maps over ([core]"
        " max_map_length). The others wait: later runs take them over, but for those of a reprocess"
        " or of a run with Tables. To load them now: sluice run %s",
        len(manifests), most, pipeline,
    )  # fmt: skip
    return sorted(manifests, key=batch_of)[:most]
