"""Advice for a batch that cannot be published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.errors import TerminalError
from sluice.operations.context import Context


@contextmanager
def advise_rollback(ctx: Context, batch_id: str) -> Iterator[None]:
    """Add to an error that another try would not mend how an operator goes on without the batch."""
    try:
        yield
    except TerminalError as error:
        if type(error) is not TerminalError:  # its subclasses have advice of their own
            raise
        way = f"to get on without it: sluice rollback {ctx.pipeline.name} --batch {batch_id}"
        raise TerminalError(f"batch {batch_id} is not published: {error}; {way}") from error
