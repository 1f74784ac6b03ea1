"""What a load says of a driver that ended, or never began."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.errors import TerminalError
from sluice_airflow import submit


def test_a_driver_that_was_never_started_is_not_tried_again() -> None:
    """The hook refuses the connection's or the operator's own settings before it starts one."""
    error = submit._typed(cast("Any", SimpleNamespace(_submit_sp=None)), "no such mode")
    assert (type(error), str(error)) == (TerminalError, "no Spark driver was started: no such mode")


@pytest.mark.parametrize("words", ["AuditFailedError: 3 of 3 are bad", "FileDeniedError: a.jsonl"])
def test_the_error_is_the_drivers_last_words(words: str) -> None:
    hook: Any = SimpleNamespace(_submit_sp=SimpleNamespace(returncode=1))
    text = f"Cannot execute: spark-submit\n26/11/21 INFO Executor\n{words}\n"
    assert str(submit._typed(hook, text)) == f"the Spark driver ended with code 1: {words}"


def test_a_driver_that_was_killed_is_reported_without_its_command() -> None:
    hook: Any = SimpleNamespace(_submit_sp=SimpleNamespace(returncode=-9))
    text = (
        "Cannot execute: spark-submit --master x. Error code is: -9.\n"
        "Last spark-submit output:\n26/11/21 INFO Executor"
    )
    assert str(submit._typed(hook, text)) == (
        "the Spark driver ended with code -9 (killed by signal 9, often for want of memory: "
        "spark.driver.memory): 26/11/21 INFO Executor"
    )
    assert str(submit._typed(hook, text.partition("\n")[0])).endswith(": it printed nothing")
