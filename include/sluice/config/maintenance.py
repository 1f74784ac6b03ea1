"""`maintenance:` of a pipeline: what maintenance keeps of its tables."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from sluice.config.fields import Strict

MOST_DAYS: Final = 100_000


class Maintenance(Strict):
    """What maintenance keeps, and when it rewrites files."""

    snapshot_days: int = Field(
        7, ge=1, le=MOST_DAYS, description="older snapshots go, but rollback's own stay"
    )
    tombstone_days: int = Field(
        30, ge=1, le=MOST_DAYS, description="how long a table keeps deletes"
    )
    changelog_days: int = Field(
        30, ge=1, le=MOST_DAYS, description="at least as long as tombstone_days"
    )
    orphan_days: int = Field(
        3, ge=2, le=MOST_DAYS, description="files that no snapshot has, from this age on"
    )
    small_files: int = Field(8, ge=2, description="this many in one partition are made one")
    delete_share: float = Field(0.1, gt=0, le=1, description="of rows that deletes hide in a file")

    @model_validator(mode="after")
    def _changelog_outlives_tombstones(self) -> Self:
        if self.changelog_days < self.tombstone_days:
            raise ValueError(f"changelog_days of tombstone_days ({self.tombstone_days}) or more")
        return self
