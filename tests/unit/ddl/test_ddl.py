"""Which columns a DDL statement renames, drops and adds, in the words of four databases."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from sluice.ddl.comments import comments
from sluice.ddl.statements import (
    LONGEST,
    Altered,
    UnreadableDdlError,
    altered,
    dropped_tables,
    replaces_table,
)

ONE = [
    ("ALTER TABLE t RENAME COLUMN OLD TO NO#", "OLD", "NO#"),
    ("ALTER TABLE t RENAME COLUMN ITEM TO ITEM#", "ITEM", "ITEM#"),
    ("ALTER TABLE `db`.`t` CHANGE COLUMN a b int NOT NULL, ADD KEY k (c)", "a", "b"),
    ("ALTER TABLE t CHANGE a `b c` varchar(10) CHARACTER SET utf8 DEFAULT 'x' AFTER d", "a", "b c"),
    ("alter table t rename column a to b", "a", "b"),
    ("ALTER TABLE ONLY public.t RENAME a TO b", "a", "b"),
    ('ALTER TABLE IF EXISTS public."t" RENAME COLUMN a TO "B"', "a", "B"),
    ('ALTER TABLE "S"."t" RENAME COLUMN "A" TO "B"', "A", "B"),
    ("/*!40000 ALTER TABLE t CHANGE a b int */", "a", "b"),
    ("/*M!100100 ALTER TABLE t CHANGE a b int */", "a", "b"),
    ("-- don't\n/*!40000 ALTER TABLE t CHANGE a b int */", "a", "b"),
    ("ALTER TABLE t ALGORITHM=INPLACE, LOCK=NONE, RENAME COLUMN a TO b", "a", "b"),
    ("ALTER TABLE t CHANGE a b enum('x','y') COMMENT 'rename \\'q\\' to z, CHANGE c d'", "a", "b"),
    ("alter table t change column `a``x` `b` text", "a`x", "b"),
    ("ALTER TABLE t RENAME INDEX i TO j, CHANGE a b int", "a", "b"),
    ("ALTER TABLE t CHANGE a a bigint, CHANGE c C int, CHANGE d e int", "d", "e"),
    ("ALTER TABLE t CHANGE COLUMN IF EXISTS a b int", "a", "b"),
    ("ALTER TABLE t RENAME COLUMN `to` TO b", "to", "b"),
    ('ALTER TABLE t RENAME COLUMN "to" TO b', "to", "b"),
    ("ALTER TABLE t RENAME COLUMN a TO `to`", "a", "to"),
    ('ALTER TABLE t RENAME "to" TO b', "to", "b"),
    ("EXEC sp_rename 'dbo.t.a', 'b', 'COLUMN'", "a", "b"),
    ("EXEC sp_rename 'dbo.t.a', 'b', COLUMN", "a", "b"),
    ('EXEC sp_rename "dbo.t.a", b, "column"', "a", "b"),
    ("execute sp_rename N'[dbo].[t].[a.b]', N'[c]', N'column';", "a.b", "[c]"),
    (
        "EXEC sys.sp_rename @newname = N'b', @objtype = 'COLUMN', @objname = N't.a'",
        "a",
        "b",
    ),
]
NONE = [
    "ALTER TABLE t CHANGE a a bigint",
    "ALTER TABLE t CHANGE a A bigint",
    "ALTER TABLE t RENAME TO t2",
    "RENAME TABLE t TO t2",
    "ALTER TABLE t RENAME INDEX a TO b",
    "ALTER TABLE t MODIFY COLUMN c int COMMENT 'CHANGE a b'",
    "ALTER TABLE t DROP INDEX i, DROP PRIMARY KEY, ADD KEY k (a), ADD CONSTRAINT u UNIQUE (b)",
    "ALTER TABLE t DROP PARTITION p0",
    "ALTER TABLE `t` ADD (KEY (a))",
    "ALTER TABLE t ADD (CONSTRAINT pk PRIMARY KEY (a))",
    "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (3))",
    "ALTER TABLE t ALTER COLUMN c DROP NOT NULL",
    "ALTER TABLE t RENAME CONSTRAINT a TO b",
    "ALTER TABLE t RENAME PARTITION p TO q",
    "ALTER TABLE t ADD SYSTEM VERSIONING",
    "ALTER TABLE t DROP SYSTEM VERSIONING",
    "ALTER TABLE t ADD PERIOD FOR SYSTEM_TIME (a, b)",
    "ALTER TABLE t DROP PERIOD FOR SYSTEM_TIME",
    "ALTER TABLE t ALTER a DROP IDENTITY IF EXISTS",
    "ALTER TABLE t ALTER COLUMN a DROP EXPRESSION",
    "ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE t MODIFY (A DROP IDENTITY)",
    "ALTER TABLE t ADD EXCLUDE USING gist (a WITH &&)",
    "ALTER TABLE t ADD DEFAULT 5 FOR a",
    "ALTER TABLE t ADD VECTOR INDEX (a)",
    "DROP TABLE t",
    "ALTER USER x RENAME TO y",
    "ALTER TABLE t DROP UNUSED COLUMNS",
    "EXEC sp_rename 'dbo.COLUMN', 'u'",
    "EXEC sp_rename 'dbo.t.i', 'COLUMN', 'INDEX'; ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
    "CREATE TABLE t (id int)",
    "garbage rename",
    "",
]
DROPS_AND_ADDS = [
    ("ALTER TABLE t DROP COLUMN a", [("a", None)]),
    ("ALTER TABLE `t` DROP `a b`, ADD `a b` varchar(9) AFTER c", [("a b", None), (None, "a b")]),
    ("ALTER TABLE ONLY public.t DROP COLUMN IF EXISTS a CASCADE", [("a", None)]),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a text", [(None, "a")]),
    ("ALTER TABLE t ADD COLUMN a int COMMENT 'CHANGE a b'", [(None, "a")]),
    ('ALTER TABLE "t" ADD ("A" NUMBER(3), B VARCHAR2(9))', [(None, "A"), (None, "B")]),
    ("ALTER TABLE t DROP COLUMN a, b", [("a", None), ("b", None)]),
    ("ALTER TABLE t ADD a int, b int", [(None, "a"), (None, "b")]),
    ("ALTER TABLE t ADD COLUMN (a varchar(9), b int)", [(None, "a"), (None, "b")]),
    ("ALTER TABLE t ADD (a dec(9,2), b int), ADD KEY k (a, b)", [(None, "a"), (None, "b")]),
    (
        "ALTER TABLE t ADD COLUMN (a enum('(','),'), b int), COMMENT='x;y', ALGORITHM=INPLACE",
        [(None, "a"), (None, "b")],
    ),
    (
        "ALTER TABLE t DROP COLUMN z, ADD (a int), ADD (b int)",
        [("z", None), (None, "a"), (None, "b")],
    ),
    ("ALTER TABLE d.t WAIT 5 RENAME COLUMN a TO b", [("a", "b")]),
    ("ALTER TABLE IF EXISTS `t` NOWAIT DROP a", [("a", None)]),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS (a int)", [(None, "a")]),
    ("ALTER TABLE S.t ADD A NUMBER(10) DEFAULT 0 NOT NULL ENABLE", [(None, "A")]),
    ('ALTER TABLE "t" ADD ("A" VARCHAR2(10) DEFAULT \'x\' NOT NULL ENABLE)', [(None, "A")]),
    ("ALTER TABLE t DROP COLUMN EMP#", [("EMP#", None)]),
    ("ALTER TABLE t CHANGE a b int, DROP c, ADD KEY k (d)", [("a", "b"), ("c", None)]),
    ("ALTER TABLE t ADD COLUMN a point SRID 4326", [(None, "a")]),
    ("ALTER ONLINE TABLE t CONVERT TO CHARSET utf8mb4, DROP a", [("a", None)]),
    ("ALTER TABLE t CONVERT TO CHARACTER SET 'a' COLLATE `b`, DROP a", [("a", None)]),
    ("ALTER TABLE dbo.t DROP CONSTRAINT DF_x, COLUMN size", [("size", None)]),
    ("ALTER TABLE t DROP COLUMN IF EXISTS [a], COLUMN [b]", [("a", None), ("b", None)]),
    ("ALTER TABLE t ADD a int CONSTRAINT df DEFAULT 5 WITH VALUES", [(None, "a")]),
    ('ALTER TABLE S.t DROP (a, "B c") CASCADE CONSTRAINTS', [("a", None), ("B c", None)]),
    ("ALTER TABLE t DROP CONSTRAINT c, COLUMN [a]", [("a", None)]),
    ("ALTER TABLE t ADD b point NOT NULL, DROP c", [(None, "b"), ("c", None)]),
    ("ALTER TABLE t SET UNUSED (a)", [("a", None)]),
    ("ALTER TABLE t SET UNUSED (a) ONLINE", [("a", None)]),
    ("ALTER TABLE t SET UNUSED COLUMN a ONLINE", [("a", None)]),
    ("ALTER TABLE t DROP COLUMN a INVALIDATE", [("a", None)]),
    ("ALTER TABLE t DROP COLUMN a CASCADE CONSTRAINTS INVALIDATE;", [("a", None)]),
    ("ALTER TABLE t DROP (a, b) CASCADE CONSTRAINTS CHECKPOINT 5", [("a", None), ("b", None)]),
    ("ALTER TABLE t DROP COLUMN checkpoint, DROP online", [("checkpoint", None), ("online", None)]),
    ("ALTER TABLE t ADD online INT, RENAME COLUMN a TO b", [(None, "online"), ("a", "b")]),
    ("ALTER TABLE t ADD (A NUMBER) MODIFY (B NUMBER(9,2), C DATE)", [(None, "A")]),
    ("ALTER TABLE t MODIFY (B NUMBER) ADD (A NUMBER)", [(None, "A")]),
    ("ALTER TABLE t ADD (A NUMBER) ADD (B NUMBER)", [(None, "A"), (None, "B")]),
    ("ALTER TABLE t ADD a INT CHECK (a > 0) NOT ENFORCED, DROP b", [(None, "a"), ("b", None)]),
    ("ALTER TABLE t ADD a TEXT COMPRESSED, DROP b", [(None, "a"), ("b", None)]),
    ("ALTER TABLE t ADD a VARCHAR(9) COMPRESSED=zlib, DROP b", [(None, "a"), ("b", None)]),
    ("ALTER TABLE t ADD a INT COLUMN_FORMAT DYNAMIC, DROP b", [(None, "a"), ("b", None)]),
    ("ALTER TABLE t ADD a INT STORAGE DISK, DROP storage", [(None, "a"), ("storage", None)]),
    ("ALTER TABLE t DROP a, DISABLE KEYS", [("a", None)]),
    ("ALTER TABLE t MODIFY COLUMN IF EXISTS c INT, DROP a", [("a", None)]),
    ("ALTER TABLE t ADD INDEX IF NOT EXISTS i (a), DROP b", [("b", None)]),
    ("ALTER TABLE t ADD UNIQUE KEY IF NOT EXISTS i (a), DROP b", [("b", None)]),
    ("ALTER TABLE t DROP COLUMN `as`", [("as", None)]),
    ("ALTER TABLE t ADD (`as` INT DEFAULT 3, z INT)", [(None, "as"), (None, "z")]),
    ("ALTER TABLE `t` ADD COLUMN (`a` INT, `b` ENUM('(',','))", [(None, "a"), (None, "b")]),
    ("ALTER TABLE t ADD (a INT, KEY k (a), c INT)", [(None, "a"), (None, "c")]),
    ("ALTER TABLE t ADD (a TEXT, FULLTEXT KEY (a))", [(None, "a")]),
    ("ALTER TABLE t ADD (key INT, index INT)", [(None, "key"), (None, "index")]),
    ("ALTER TABLE t ADD vector INT, ADD system INT", [(None, "vector"), (None, "system")]),
    ("ALTER TABLE t ADD SYSTEM VERSIONING, DROP a", [("a", None)]),
    ("ALTER TABLE t DROP period, DROP identity", [("period", None), ("identity", None)]),
    ("ALTER TABLE t SET UNUSED COLUMN a", [("a", None)]),
    ('ALTER TABLE t DROP COLUMN "a, COLUMN b"', [("a, COLUMN b", None)]),
    (f"ALTER TABLE t ADD a int AS ({'DATE(' * 6}b{')' * 6}), DROP c", [(None, "a"), ("c", None)]),
    ("EXEC sp_rename 't.a b', 'c', 'COLUMN'", [("a b", "c")]),
]
UNREADABLE = [
    "ALTER TABLE t ADD c INT, DEFAULT USING",
    "ALTER TABLE T ADD (A CLOB) LOB (A) STORE AS SECUREFILE",
    "EXEC sp_rename 'a', 'b', 'COLUMN'",
    "EXEC sp_rename @old, 'b', 'COLUMN'",
    "EXEC sp_rename a, 'b', COLUMN",
    "EXEC sp_rename 'f(t.a)', 'b', 'COLUMN'",
    "EXEC sp_rename 'dbo.t.a', 'b', 'COLUMN'; EXEC another 'COLUMN'",
    "ALTER TABLE t RENAME COLUMN a TO",
    "ALTER TABLE t ADD a int CONSTRAINT 5",
    "ALTER TABLE t ALTER a DROP IDENTITY, DROP b ???",
    "ALTER TABLE t DROP period ???",
    # only the server knows whether it is done
    "IF COL_LENGTH('t', 'a') IS NOT NULL ALTER TABLE t DROP COLUMN a",
    "IF 1 = 1 BEGIN ALTER TABLE t DROP COLUMN a; END",
    # what SharePlex has instead of a statement
    "drop column",
    'DROP COLUMN {"C":null}',
    "ALTER TABLE t ADD (`a INT, z INT)",
    "ALTER TABLE t ADD(a INT ???)",
    "ALTER TABLE t CHANGE a b int; CALL p('rename')",
    f"ALTER TABLE t CHANGE a b int COMMENT '{'x' * LONGEST}'",
    f"ALTER TABLE t CHANGE a b int DEFAULT {'(' * 5000}1{')' * 5000}",
    f"ALTER TABLE t CHANGE a b int DEFAULT {'DATE(' * 12}1{')' * 12}",
    f"EXEC sp_rename 't.{'(' * 5000}a{')' * 5000}', 'b', 'COLUMN'",
    "EXEC sp_rename 't.[a', 'b', 'COLUMN'",
]


def names_alone(statement: str) -> list[Altered]:
    return [replace(one, schema="", added=()) for one in altered(statement)]


@pytest.mark.parametrize(("statement", "old", "new"), ONE)
def test_a_rename_is_read(statement: str, old: str, new: str) -> None:
    assert names_alone(statement) == [Altered("t", ((old, new),))]


@pytest.mark.parametrize(("statement", "columns"), DROPS_AND_ADDS)
def test_a_drop_and_an_add_are_read(
    statement: str, columns: list[tuple[str | None, str | None]]
) -> None:
    assert names_alone(statement) == [Altered("t", tuple(columns))]


def test_columns_of_one_statement_change_their_names_at_once() -> None:
    swap = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    assert altered(swap) == [Altered("t", (("a", "b"), ("b", "a")))]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("ADD COLUMN holo text", (None, "holo")),
        (" drop column `old name`", ("old name", None)),
        ("RENAME COLUMN a TO b", ("a", "b")),
        ("CHANGE COLUMN a b INT NOT NULL", ("a", "b")),
    ],
)
def test_columns_alone_are_of_a_table_without_a_name(
    text: str, column: tuple[str | None, str | None]
) -> None:
    assert names_alone(text) == [Altered("", (column,))]


def test_every_statement_about_columns_alone_is_read() -> None:
    two = "DROP COLUMN a; drop column `b;c`"
    assert altered(two) == [Altered("", (("a", None),)), Altered("", (("b;c", None),))]
    two = "ALTER TABLE t ADD COLUMN a TEXT COMMENT '; DROP COLUMN c'; DROP COLUMN b"
    assert [one.columns for one in altered(two)] == [((None, "a"),), (("b", None),)]


def test_every_statement_of_a_text_is_read() -> None:
    two = "ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE u RENAME COLUMN c TO d"
    assert altered(two) == [Altered("t", (("a", "b"),)), Altered("u", (("c", "d"),))]


@pytest.mark.parametrize("statement", NONE)
def test_statement_without_a_column_change_gives_nothing(statement: str) -> None:
    assert altered(statement) == []


@pytest.mark.parametrize("statement", UNREADABLE, ids=lambda text: text[:50])
def test_statement_that_no_grammar_reads_raises_without_a_log_message(
    statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(UnreadableDdlError):
        altered(statement)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("DROP TABLE IF EXISTS `shop`.`t` /* generated by server */", ["t"]),
        ('drop table public."T" cascade', ["T"]),
        ("DROP TABLE [dbo].[t]", ["t"]),
        ("-- old\n/* no more */ DROP TABLE s.t CASCADE CONSTRAINTS PURGE", ["t"]),
        ("/*!40000 DROP TABLE IF EXISTS `t` */", ["t"]),
        ("DROP TABLE a, b; DROP TABLE c", ["a", "b", "c"]),
        ("CREATE OR REPLACE TABLE `shop`.`t` (`id` int(11) NOT NULL, PRIMARY KEY (`id`))", ["t"]),
        ("create or replace table t as select * from u", ["t"]),
        ("CREATE OR REPLACE TEMPORARY TABLE t (id int)", []),
        ("CREATE OR REPLACE VIEW v AS SELECT * FROM t", []),
        ("CREATE TABLE t (id int)", []),
        ("DROP TEMPORARY TABLE t", []),
        ("DROP TABLE t; DROP TEMPORARY TABLE u", ["t"]),
        ("DROP TABLE IF EXISTS t WAIT 5", ["t"]),
        ("DROP VIEW t", []),
        ("DROP INDEX i ON t", []),
        ("ALTER TABLE t DROP COLUMN a COMMENT 'DROP TABLE t'", []),
        ("CREATE TABLE t (a text) /* DROP TABLE t */", []),
    ],
)
def test_the_tables_that_a_statement_drops(statement: str, tables: list[str]) -> None:
    assert dropped_tables(statement) == tables


@pytest.mark.parametrize(
    ("statement", "replaces"),
    [
        ("create or  replace table t (id int)", True),
        ("/* anew */ CREATE OR REPLACE TABLE t AS SELECT 'DROP TABLE t'", True),
        ("DROP TABLE IF EXISTS t /* CREATE OR REPLACE TABLE t */", False),
    ],
)
def test_replaced_table_is_distinguished_from_a_dropped_one(statement: str, replaces: bool) -> None:
    assert replaces_table(statement) == replaces


def test_drop_that_no_grammar_reads_raises() -> None:
    with pytest.raises(UnreadableDdlError):
        dropped_tables('DROP TABLE t AS "BIN$x==$0"')


@pytest.mark.parametrize(
    "text",
    [
        "add " + "ALTER " * 10_000,
        "ALTER TABLE t " + "DROP " * 12_000,
        "ALTER TABLE t ADD c INT," + "ADD (" * 12_000,
        "ALTER TABLE t DROP a" + " " * 60_000 + "CASCADE",
        "ALTER TABLE t DROP COLUMN a" + " ONLINE CHECKPOINT" * 3_500 + " ADD",
        "ALTER TABLE t ADD (a INT)" + " MODIFY (" * 7_000,
        "sp_rename " * 6_000 + " add",
        "ALTER TABLE t ADD a" + "/*!" * 20_000,
        "ALTER TABLE t ADD a '" + r"\'" * 30_000,
        "ALTER TABLE t ADD a int;" * 2_600,
        "ALTER TABLE t ADD a int " + "[" * 65_000,
        "ALTER TABLE t ADD a int DEFAULT " + "DATE(" * 18 + "1" + ")" * 18,
        "ALTER TABLE t ADD a int DEFAULT " + "CONVERT(" * 24,
        "ALTER TABLE t ADD a int; SELECT 1 FROM b" + " LEFT JOIN c" * 20,
        "ALTER TABLE t ADD a int; SELECT 1 FROM b" + " LEFT JOIN c" * 60 + ",a" * 32_000,
        "DROP TABLE t; SELECT " + "DATE(" * 18 + "1" + ")" * 18,
        "ALTER TABLE t CHANGE a b int COMMENT 'x', ADD KEY ((" + "DATE(" * 18 + "1" + ")" * 20,
        "EXEC sp_rename 't." + "DATE(" * 20 + "1" + ")" * 20 + "', 'b', 'COLUMN'",
    ],
    ids=range(18),
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    for read in (altered, dropped_tables, comments):
        with suppress(UnreadableDdlError):
            read(text[: LONGEST - 1])
    assert time.process_time() - started < 8
