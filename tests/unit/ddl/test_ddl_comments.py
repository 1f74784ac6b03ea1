"""Comments in DDL: what statements of several databases say, and what texts may not do."""

from __future__ import annotations

import pytest

from sluice.ddl.comments import LONGEST, Comment, comments, sanitised_comment
from sluice.ddl.statements import UnreadableDdlError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COMMENT ON COLUMN s.t.a IS 'it''s'", [Comment("t", "a", "it's", "s")]),
        ('COMMENT ON COLUMN "S"."T"."A" IS \'\'', [Comment("T", "A", None, "S")]),
        ("comment on column t.a is null;", [Comment("t", "a", None)]),
        ("COMMENT ON TABLE t IS 'all \\n of it'", [Comment("t", None, "all \\n of it")]),
        ("COMMENT ON TABLE t IS 'x'; COMMENT ON COLUMN t.a IS 'IS NULL'",
         [Comment("t", None, "x"), Comment("t", "a", "IS NULL")]),
        ("ALTER TABLE `t` ADD COLUMN a INT COMMENT 'new', ADD b INT, COMMENT='tab'",
         [Comment("t", "a", "new"), Comment("t", "b", None), Comment("t", None, "tab")]),
        ("ALTER TABLE t ADD (a INT COMMENT 'x', `b` INT)",
         [Comment("t", "a", "x"), Comment("t", "b", None)]),
        ("ALTER TABLE s.t CHANGE a b BIGINT COMMENT 'hi'", [Comment("t", "b", "hi", "s")]),
        ("ALTER TABLE t CHANGE a b BIGINT", [Comment("t", "b", None)]),
        ("ALTER TABLE t MODIFY COLUMN a BIGINT", [Comment("t", "a", None)]),
        ("ALTER TABLE t MODIFY a BIGINT COMMENT 'x'", [Comment("t", "a", "x")]),
        ("ALTER TABLE t MODIFY a BIGINT", []),
        ("ALTER TABLE t MODIFY (a NUMBER(10))", []),
        ("CREATE TABLE t (a INT COMMENT 'c', b TEXT) COMMENT='tt' ENGINE=InnoDB",
         [Comment("t", None, "tt"), Comment("t", "a", "c"), Comment("t", "b", None)]),
        ("CREATE TABLE t (comment VARCHAR(9))", []),
        ("CREATE TABLE IF NOT EXISTS t (a INT COMMENT 'c')", []),
        ("COMMENT ON INDEX i IS 'x'", []),
        ("ALTER TABLE t ADD a INT -- COMMENT 'no'", []),
    ],
)  # fmt: skip
def test_comments_are_read_from_statements(text: str, expected: list[Comment]) -> None:
    assert comments(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "COMMENT ON COLUMN t.a IS",
        "ALTER TABLE t COMMENT 'x' ???",
        "ALTER TABLE t ADD a int COMMENT 'x' CONSTRAINT 5",
    ],
)
def test_text_that_no_grammar_reads_is_no_comment(text: str) -> None:
    with pytest.raises(UnreadableDdlError):
        comments(text)


def test_a_comment_says_nothing_to_a_terminal_and_is_bounded() -> None:
    assert sanitised_comment("a\x1b[31mb\u202ec\r\nd\0") == "a [31mb c  d"
    assert sanitised_comment("\x00 \n") is None
    long = sanitised_comment("x" * 5000)
    assert long is not None
    assert (len(long), long[-1]) == (LONGEST, "…")


def test_a_statement_in_a_comment_is_a_text() -> None:
    text = "x''; DROP TABLE t; /* IS NULL */ --"
    expected = [Comment("t", "a", text.replace("''", "'"))]
    assert comments(f"COMMENT ON COLUMN t.a IS '{text}'") == expected
    assert comments(f"ALTER TABLE t MODIFY a INT COMMENT '{text}'") == expected
