"""Epochs in the configuration: their highest number, and which begin with a full load."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sluice.config.fields import Instant, Strict

MAX_EPOCH: Final = 9999


class FullLoad(Strict):
    """An epoch that begins with a full load: rows of older epochs that it lacks are removed."""

    epoch: int = Field(ge=1, le=MAX_EPOCH, description="the epoch that begins with it")
    at: Instant = Field(description="when rows of older epochs ended, for histories")


def _each_once(value: list[FullLoad]) -> list[FullLoad]:
    if len({one.epoch for one in value}) < len(value):
        raise ValueError("each epoch once")
    return value


FullLoads = Annotated[list[FullLoad], AfterValidator(_each_once)]
