"""Which columns a DDL statement renames, in the words of four databases."""

from __future__ import annotations

import logging

import pytest

from sluice.ddl import LONGEST, Renamed, UnreadableDdl, renamed

ONE = [
    ("ALTER TABLE `db`.`t` CHANGE COLUMN a b int NOT NULL, ADD COLUMN c int", "a", "b"),
    ("ALTER TABLE t CHANGE a `b c` varchar(10) CHARACTER SET utf8 DEFAULT 'x' AFTER d", "a", "b c"),
    ("alter table t rename column a to b", "a", "b"),
    ("ALTER TABLE ONLY public.t RENAME a TO b", "a", "b"),
    ('ALTER TABLE IF EXISTS public."t" RENAME COLUMN a TO "B"', "a", "B"),
    ('ALTER TABLE "S"."t" RENAME COLUMN "A" TO "B"', "A", "B"),
    ("/*!40000 ALTER TABLE t CHANGE a b int */", "a", "b"),
    ("ALTER TABLE t ALGORITHM=INPLACE, LOCK=NONE, RENAME COLUMN a TO b", "a", "b"),
    ("ALTER TABLE t CHANGE a b enum('x','y') COMMENT 'rename \\'q\\' to z, CHANGE c d'", "a", "b"),
    ("alter table t change column `a``x` `b` text", "a`x", "b"),
    ("ALTER TABLE t RENAME INDEX i TO j, CHANGE a b int", "a", "b"),
    ("ALTER TABLE t CHANGE a a bigint, CHANGE c C int, CHANGE d e int", "d", "e"),
]
NONE = [
    "ALTER TABLE t CHANGE a a bigint",
    "ALTER TABLE t CHANGE a A bigint",
    "ALTER TABLE t RENAME TO t2",
    "RENAME TABLE t TO t2",
    "ALTER TABLE t RENAME INDEX a TO b",
    "ALTER TABLE t ADD COLUMN c int COMMENT 'CHANGE a b'",
    "ALTER USER x RENAME TO y",
    "CREATE TABLE t (id int)",
    "garbage rename",
    "",
]
UNREADABLE = [
    "EXEC sp_rename 'dbo.t.a', 'b', 'COLUMN'",
    "ALTER TABLE t RENAME COLUMN a TO",
    "ALTER TABLE t CHANGE a b int; CALL p('rename')",
    f"ALTER TABLE t CHANGE a b int COMMENT '{'x' * LONGEST}'",
    f"ALTER TABLE t CHANGE a b int DEFAULT {'(' * 5000}1{')' * 5000}",
]


@pytest.mark.parametrize(("statement", "old", "new"), ONE)
def test_a_rename_is_read(statement: str, old: str, new: str) -> None:
    assert renamed(statement) == [Renamed("t", ((old, new),))]


def test_columns_of_one_statement_change_their_names_at_once() -> None:
    swap = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    assert renamed(swap) == [Renamed("t", (("a", "b"), ("b", "a")))]


def test_every_statement_of_a_text_is_read() -> None:
    two = "ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE u RENAME COLUMN c TO d"
    assert renamed(two) == [Renamed("t", (("a", "b"),)), Renamed("u", (("c", "d"),))]


@pytest.mark.parametrize("statement", NONE)
def test_what_renames_no_column_tells_nothing(statement: str) -> None:
    assert renamed(statement) == []


@pytest.mark.parametrize("statement", UNREADABLE, ids=lambda text: text[:50])
def test_what_no_grammar_reads_is_said(statement: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(UnreadableDdl):
        renamed(statement)
    assert caplog.text == ""
