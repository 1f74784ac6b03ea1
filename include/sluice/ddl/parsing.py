"""Parse SQL of unknown origin in a bounded time.

For each level of some constructs (`DATE(DATE(…`, `LEFT JOIN a LEFT JOIN b …`) sqlglot's parsers try
again all that is inside, so that their time doubles with each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot import Parser, exp

# Statements that people write take about one step for each token, and fewer than four.
_LEAST_STEPS: Final = 1000
_STEPS_PER_TOKEN: Final = 5
# Long ones take two at most, of tokens that are half as many as their characters.
_MOST_STEPS: Final = 100_000
_TOO_DEEP: Final = "nested too deep"


class TooIntricateError(ValueError):
    """A parser takes too many steps for a text, or it is nested too deep."""


def parsed(
    text: str, dialect: str, into: type[exp.Expr] | None = None, *, least_steps: int = _LEAST_STEPS
) -> list[exp.Expr | None]:
    """Parse a text, as `sqlglot.parse` does, or `into` one kind of expression.

    `least_steps`: how far the parser may move, also in a short text; 100,000 steps take about half
    a second. Raises SqlglotError for an unreadable text, TooIntricateError for one that takes too
    many steps or is nested too deep.
    """
    from sqlglot import Dialect

    grammar = Dialect.get_or_raise(dialect)
    tokens = grammar.tokenize(text)
    parser = _counting(grammar.parser_class)(dialect=grammar)
    vars(parser)["steps_left"] = max(least_steps, min(_STEPS_PER_TOKEN * len(tokens), _MOST_STEPS))
    try:
        return parser.parse_into(into, tokens, text) if into else parser.parse(tokens, text)
    except RecursionError as error:
        raise TooIntricateError(_TOO_DEEP) from error


@cache
def _counting(parser_class: type[Parser]) -> type[Parser]:
    return type(parser_class.__name__, (_Counting, parser_class), {})


class _Counting:
    """The part of a parser that counts its moves, back and forth."""

    steps_left: int

    def _advance(self, times: int = 1) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise TooIntricateError(_TOO_DEEP)
        super()._advance(times)  # type: ignore[misc]  # of the parser's class
