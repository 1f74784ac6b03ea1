"""What an operator may ask of a rollback."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.errors import ConfigError
from sluice.operations.rollback import RollbackRequest


@pytest.mark.parametrize(
    "asked",
    [
        {"batch": "b1"},
        {"to": "b1", "release": True, "user": "ann"},
        {"rebuild": True},
        {"rebuild": True, "table": "orders", "dry_run": True},
    ],
)
def test_request_for_one_thing_is_accepted(asked: dict[str, Any]) -> None:
    request = RollbackRequest(**asked)
    assert {name: getattr(request, name) for name in asked} == asked


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"table": "orders"},
        {"batch": "b1", "to": "b1"},
        {"batch": "b1", "rebuild": True},
        {"to": "b1", "rebuild": True},
        {"batch": "b1", "table": "orders"},
    ],
)
def test_options_that_do_not_go_together_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"rollback: (give one of --batch|--table goes with)"):
        RollbackRequest(**asked)


def test_refusal_names_the_options_given_together() -> None:
    with pytest.raises(ConfigError, match=r"got --batch and --to$"):
        RollbackRequest(batch="b1", to="b1")
    with pytest.raises(ConfigError, match=r"got none of them$"):
        RollbackRequest()
    with pytest.raises(ConfigError, match="--table goes with --rebuild; --to undoes"):
        RollbackRequest(to="b1", table="orders")


@pytest.mark.parametrize("name", ["batch", "to"])
def test_rollback_of_an_invalid_batch_id_is_refused(name: str) -> None:
    asked: dict[str, Any] = {name: "../b1"}
    with pytest.raises(ConfigError, match="expected a batch as `sluice status` lists it"):
        RollbackRequest(**asked)
