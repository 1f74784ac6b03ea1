"""The checks that a table must pass before a batch is published into it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sluice.config.fields import Name, Strict
from sluice.ddl.parsing import TooIntricateError, parsed

TABLE: Final = "{table}"
_EXPECTED: Final = f"one SELECT over {TABLE} that returns the rows which should not be there"
# Of the parser: queries that people write take hundreds.
_STEPS: Final = 100_000


def _query(value: str) -> str:
    # Imported late: only pipelines with checks need the parser.
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if TABLE not in value:
        raise ValueError(_EXPECTED)
    try:
        statements = parsed(value.replace(TABLE, "checked"), "spark", least_steps=_STEPS)
    except SqlglotError as error:
        raise ValueError(f"{_EXPECTED}: {str(error).splitlines()[0]}") from error
    except TooIntricateError as error:
        raise ValueError(f"{_EXPECTED}, nested less deep") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ValueError(_EXPECTED)
    return value


class Check(Strict):
    """A query on a table as the batch would leave it; any row that it returns fails the batch."""

    name: Name = Field(description="what the error calls it")
    sql: Annotated[str, AfterValidator(_query)] = Field(
        description="one SELECT; {table} is the table with the batch in it"
    )
