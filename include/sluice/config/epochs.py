"""Epochs in the configuration: how high they go, and which begin with a full load."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sluice.config.fields import Instant, Strict

MAX_EPOCH: Final = 9999


class FullLoad(Strict):
    """An epoch that begins with a full load: what older epochs left of its tables is gone."""

    epoch: int = Field(ge=1, le=MAX_EPOCH, description="the epoch that begins with it")
    at: Instant = Field(description="when rows of older epochs ended, for histories")


def _each_once(value: list[FullLoad]) -> list[FullLoad]:
    if len({one.epoch for one in value}) < len(value):
        raise ValueError("each epoch once")
    return value


FullLoads = Annotated[list[FullLoad], AfterValidator(_each_once)]
