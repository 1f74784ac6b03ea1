"""What DDL says of the rows that are there when a column is added."""

from __future__ import annotations

import pytest

from sluice.ddl.defaults import BIT, CHAR, ENUM, SET, TIMESTAMP, AddedColumn, kept_columns
from sluice.ddl.statements import altered

TOLD = [
    ("ADD COLUMN c INT NOT NULL DEFAULT 7 AFTER b", "7", True),
    ("ADD c VARCHAR(10) DEFAULT 'it''s' COMMENT 'DEFAULT 1'", "it's", True),
    ("ADD COLUMN c DECIMAL(5,2) DEFAULT -1.50", "-1.50", False),
    ("ADD c NUMBER(10) DEFAULT 5 NOT NULL ENABLE", "5", True),
    ("ADD COLUMN c BIT(1) NOT NULL DEFAULT b'1'", "1", True),
    ("ADD COLUMN c BOOLEAN DEFAULT FALSE", "0", False),
    ("ADD COLUMN c text DEFAULT 'x'::text NOT NULL", "x", True),
    ("ADD COLUMN c jsonb DEFAULT '{}'::jsonb", "{}", False),
    ("ADD (c DATE DEFAULT DATE '2020-01-01')", "2020-01-01", False),
    ("ADD COLUMN c INT DEFAULT NULL", None, True),
    ("ADD COLUMN c INT", None, True),
    ("ADD (c NUMBER DEFAULT ON NULL 5)", "5", True),
    (
        "ADD c VARCHAR(30) DEFAULT 'DEFAULT ON NULL NOT ENFORCED'",
        "DEFAULT ON NULL NOT ENFORCED",
        True,
    ),
    # MySQL fills in what a column that is not nullable has to hold
    ("ADD COLUMN c INT UNSIGNED NOT NULL", "0", True),
    ("ADD COLUMN c VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL", "", True),
    ("ADD COLUMN c YEAR NOT NULL", "0", False),
    ("ADD COLUMN c BOOLEAN NOT NULL", "0", False),
    ("ADD COLUMN c TIME(3) NOT NULL", "00:00:00", False),
    # what looks like a comment that is executed
    ("ADD c VARCHAR(20) DEFAULT '/*!50000 x*/'", "/*!50000 x*/", True),
    ("/* don't */ ADD c VARCHAR(20) /*!50000 DEFAULT 'x' */", "x", True),
    # Oracle's empty text is NULL; where only MySQL has such names it is what it says
    ("ADD (c VARCHAR2(20) DEFAULT '')", None, True),
    ("ADD c NVARCHAR2(20) DEFAULT ''", None, True),
    ("ADD c CLOB DEFAULT ''", None, True),
    ("ADD (c NCLOB DEFAULT '')", None, False),
    ("ADD c VARCHAR(20) DEFAULT ''", "", True),
    ("ADD c VARCHAR(20) DEFAULT '' COMMENT 'was VARCHAR2'", "", True),
    # as long as its column, or MySQL's, whatever reads it
    ("ADD c CHAR(3) DEFAULT 'xyz'", "xyz", True),
    ("ADD c CHAR DEFAULT 'x'", "x", True),
    ("ADD `c` CHAR(3) DEFAULT 'x'", "x", True),
    ("ADD c CHAR(3) NOT NULL", "", True),
    ("ADD c CHAR(3) DEFAULT NULL", None, True),
    # MySQL has no blanks at the end of a CHAR, the others have all of them
    ("ADD `c` CHAR(1) NOT NULL DEFAULT ' '", "", True),
    ("ADD `c` CHAR(3) DEFAULT 'x  '", "x", True),
    ("ADD `c` VARCHAR(3) DEFAULT 'x  '", "x  ", True),
    ("ADD [c] CHAR(1) NOT NULL DEFAULT ' '", " ", True),
    # national characters are of SQL Server alone where nothing says another
    ("ADD `c` VARCHAR(5) DEFAULT N'x'", "x", True),
    ("ADD c NVARCHAR2(5) DEFAULT N'x'", "x", True),
    # MySQL's two digits of a year
    ("ADD c YEAR DEFAULT 20", "2020", False),
    ("ADD c YEAR DEFAULT '70'", "1970", False),
    ("ADD c YEAR DEFAULT '0'", "2000", False),
    ("ADD c YEAR DEFAULT 0", "0", False),
    ("ADD c YEAR DEFAULT 2024", "2024", False),
    ("ADD c YEAR(4) DEFAULT '0000'", "0", False),
    # as many places as their type has, or fewer
    ("ADD c FLOAT(7,2) DEFAULT 1.230", "1.230", False),
    ("ADD c DOUBLE DEFAULT 1.234", "1.234", False),
    ("ADD `c` DATETIME DEFAULT '2020-01-01 00:00:00.0'", "2020-01-01 00:00:00.0", False),
    ("ADD c DATETIME(3) DEFAULT '2020-01-01 00:00:00.6'", "2020-01-01 00:00:00.6", False),
    ("ADD c DATETIME(1) DEFAULT '2020-01-01 00:00:00.6'", "2020-01-01 00:00:00.6", False),
    ("ADD [c] datetime2 NOT NULL DEFAULT '2020-01-01 00:00:00.6'", "2020-01-01 00:00:00.6", False),
    # a cast that leaves a constant as it is
    ("ADD c VARCHAR(9) DEFAULT 'abc'::character varying", "abc", True),
    ("ADD c VARCHAR(9) DEFAULT CAST('abc' AS VARCHAR(3))", "abc", True),
    ("ADD c CHAR(3) DEFAULT 'abc'::bpchar", "abc", True),
    ("ADD c NUMERIC(5,2) DEFAULT '5.50'::numeric(5,2)", "5.50", False),
    ("ADD c NUMERIC(5,2) DEFAULT '5'::numeric", "5", False),
    ("ADD c BOOLEAN DEFAULT false::boolean", "0", False),
    ("ADD c INT DEFAULT (-5)::int", "-5", True),
    ("ADD `c` DATETIME(3) DEFAULT TIMESTAMP '2020-01-01 00:00:00'", "2020-01-01 00:00:00", False),
    ("ADD `c` DATETIME DEFAULT DATE '2020-01-01'", "2020-01-01", False),
    ("ADD (c DATE DEFAULT TIMESTAMP '2020-01-01 12:00:00')", "2020-01-01 12:00:00", False),
    # what is rounded is spelled otherwise
    ("ADD c INT DEFAULT 1.5", "1.5", False),
    ("ADD c DECIMAL DEFAULT 1.5", "1.5", False),
    # so is a number in a text: Oracle's .5, MySQL's 100 and 7
    ("ADD c VARCHAR2(5) DEFAULT 0.5", "0.5", False),
    ("ADD c VARCHAR(5) DEFAULT 1e2", "1e2", False),
    ("ADD c VARCHAR(5) DEFAULT (007)", "007", False),
    ("ADD c VARCHAR(5) DEFAULT -0", "-0", False),
    ("ADD c VARCHAR(5) DEFAULT -5", "-5", True),
    ("ADD c VARCHAR(5) DEFAULT '0.50'", "0.50", True),
    ("ADD `c` VARCHAR(5) DEFAULT FALSE", "0", True),
    # SQL Server leaves the rows alone that may hold NULL
    ("ADD [c] INT NOT NULL CONSTRAINT [df] DEFAULT ((3))", "3", True),
    ("ADD [c] INT NULL CONSTRAINT [df] DEFAULT ((3)) WITH VALUES", "3", True),
    ("ADD [c] INT NULL CONSTRAINT [df] DEFAULT ((3))", None, True),
    ("ADD c INT NULL CONSTRAINT df DEFAULT ((3))", None, True),
    ("ADD c NVARCHAR(9) DEFAULT N'x'", None, True),
]
NOT_TOLD = [
    "ADD COLUMN IF NOT EXISTS c INT DEFAULT 7",
    "ADD COLUMN IF NOT EXISTS (c INT DEFAULT 7)",
    "ADD COLUMN c TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
    "ADD (c DATE DEFAULT SYSDATE)",
    "ADD COLUMN c uuid DEFAULT gen_random_uuid()",
    "ADD COLUMN c INT DEFAULT (1 + 1)",
    "ADD COLUMN c INT GENERATED ALWAYS AS (a + 1) STORED",
    "ADD COLUMN c BIGINT GENERATED BY DEFAULT AS IDENTITY",
    "ADD COLUMN c INT NOT NULL AUTO_INCREMENT",
    "ADD COLUMN c BINARY(2) DEFAULT 0x4142",
    "ADD COLUMN c DATE NOT NULL",
    "ADD COLUMN c ENUM('0','1') NOT NULL DEFAULT 1",
    # of a cast that may make something else of it
    "ADD c NUMERIC(5,2) DEFAULT 5.5::int",
    "ADD c NUMERIC(5,2) DEFAULT '5.50'::numeric",
    "ADD c CHAR(2) DEFAULT 'abc'::char(2)",
    "ADD c VARCHAR(9) DEFAULT 'abc'::char",
    "ADD c VARCHAR(9) DEFAULT 1.5::numeric(5,2)",
    "ADD c VARCHAR(9) DEFAULT false::text",
    "ADD c DATE DEFAULT '2020-01-01 12:00:00'::date",
    "ADD (c VARCHAR2(9) DEFAULT DATE '2020-01-01')",
    "ADD COLUMN c ENUM('a','b') DEFAULT 'z'",
    "ADD COLUMN c ENUM('0','1') DEFAULT TRUE",
    # the character of which they are the code
    "ADD `c` VARCHAR(5) DEFAULT b'1000001'",
    # of bits there are none, and a type may be called as MySQL's is
    "ADD COLUMN c BIT(1) DEFAULT b''",
    'ADD COLUMN c "enum" NOT NULL',
    "ADD COLUMN c enum NOT NULL DEFAULT 'x'",
    # MySQL rounds them, as doubles
    "ADD c FLOAT(7,2) DEFAULT 1.234",
    "ADD c DOUBLE(7,2) DEFAULT 1.235e0",
    "ADD `c` DATETIME DEFAULT '2020-01-01 00:00:00.6'",
    "ADD c DATETIME DEFAULT '2020-01-01 00:00:00.6'",
    "ADD c TIMESTAMP(3) DEFAULT '2020-01-01 00:00:00.0006'",
    "ADD c YEAR DEFAULT 150",
    # a backslash is one to PostgreSQL, and none to MySQL
    r"ADD COLUMN c VARCHAR(9) DEFAULT 'a\tb'",
]


@pytest.mark.parametrize(("text", "default", "verbatim"), TOLD)
def test_the_default_of_a_column_that_is_added(
    text: str, default: str | None, verbatim: bool
) -> None:
    (one,) = altered(f"ALTER TABLE t {text}")
    assert one.added == (AddedColumn("c", default, verbatim),)


@pytest.mark.parametrize(
    ("text", "default", "labels"),
    [
        ("ENUM('a','b') NOT NULL DEFAULT 'b'", "b", ENUM),
        ("ENUM('it''s','b') NOT NULL", "it's", ENUM),
        ("ENUM('a ','b') NOT NULL", "a", ENUM),
        ("SET('a','b') DEFAULT 'a,b'", "a,b", SET),
        ("SET('a','b') NOT NULL", "", SET),
        # as the column's list has them, whatever the default spells
        ("ENUM('Active','Inactive') DEFAULT 'active'", "Active", ENUM),
        ("ENUM('a','A') DEFAULT 'A'", "A", ENUM),
        ("ENUM('a ','b') DEFAULT 'a '", "a", ENUM),
        ("SET('a','b','c') DEFAULT 'C,b,a'", "a,b,c", SET),
        ("SET('a','b') DEFAULT ''", "", SET),
    ],
)
def test_labels_are_a_text_where_a_format_writes_them_so(
    text: str, default: str, labels: str
) -> None:
    (change,) = altered(f"ALTER TABLE t ADD COLUMN c {text}")
    (one,) = change.added
    assert one == AddedColumn("c", default, True, labels)
    assert one.as_written({labels}) == AddedColumn("c", default, True)
    assert one.as_written({"other"}) == AddedColumn("c", default, False)


@pytest.mark.parametrize("kind", ["CHAR(3)", "character(3)", "NCHAR(3)", "CHAR(3 BYTE)"])
def test_a_text_that_is_filled_up_with_blanks_but_by_mysql(kind: str) -> None:
    (change,) = altered(f"ALTER TABLE T ADD (NOTE VARCHAR2(20) DEFAULT '', c {kind} DEFAULT 'x')")
    assert change.added == (AddedColumn("NOTE", None), AddedColumn("c", "x", True, CHAR))
    assert change.added[1].as_written({ENUM, SET}) == AddedColumn("c", "x", False)
    assert change.added[1].as_written({CHAR}) == AddedColumn("c", "x", True)


def test_blank_default_of_a_char_is_an_empty_text_for_mysql_alone() -> None:
    (change,) = altered("ALTER TABLE t ADD c CHAR(1) NOT NULL DEFAULT ' ', ADD d NCHAR DEFAULT 'x'")
    assert change.added == (AddedColumn("c", "", True, CHAR), AddedColumn("d", "x"))


def test_a_backtick_in_a_text_is_no_name_of_mysql() -> None:
    (change,) = altered("ALTER TABLE t ADD c CHAR(3) DEFAULT '`'")
    assert change.added == (AddedColumn("c", "`", True, CHAR),)


def test_bits_are_a_number_to_mysql_and_a_text_to_postgresql() -> None:
    (change,) = altered("ALTER TABLE t ADD c bit(4) DEFAULT B'0101', ADD d bit(1) DEFAULT B'1'")
    assert change.added == (AddedColumn("c", "5", True, BIT), AddedColumn("d", "1"))
    assert change.added[0].as_written({ENUM, SET}) == AddedColumn("c", "5", False)
    assert change.added[0].as_written({BIT}) == AddedColumn("c", "5", True)
    (change,) = altered("ALTER TABLE `t` ADD c bit(4) DEFAULT B'0101'")
    assert change.added == (AddedColumn("c", "5"),)


def test_a_boolean_is_a_number_to_mysql_and_a_word_to_others() -> None:
    (change,) = altered(
        "ALTER TABLE t ADD c VARCHAR(5) DEFAULT FALSE, ADD d VARCHAR(5) DEFAULT (TRUE)"
    )
    assert change.added == (AddedColumn("c", "0", True, BIT), AddedColumn("d", "1", True, BIT))


@pytest.mark.parametrize(
    ("text", "kind", "of_session"),
    [
        ("`c` TIMESTAMP", "", True),
        ("`c` TIMESTAMP(3)", "", True),
        ("c TIMESTAMP", TIMESTAMP, False),
        ("`c` DATETIME", "", False),
    ],
)
def test_mysqls_timestamp_is_in_the_zone_of_the_session(
    text: str, kind: str, of_session: bool
) -> None:
    """Its reference manual, "The DATE, DATETIME, and TIMESTAMP Types"."""
    noon = "2020-01-01 12:00:00"
    (change,) = altered(f"ALTER TABLE t ADD {text} DEFAULT '{noon}'")
    (one,) = change.added
    assert one == AddedColumn("c", noon, False, kind, of_session)
    assert one.as_written({ENUM}).of_session == of_session
    assert one.as_written({TIMESTAMP}).of_session == (of_session or kind == TIMESTAMP)


@pytest.mark.parametrize("text", NOT_TOLD)
def test_default_that_only_the_source_can_compute_is_not_read(text: str) -> None:
    (one,) = altered(f"ALTER TABLE t {text}")
    assert one.columns == ((None, "c"),)
    assert one.added == ()


def test_each_added_column_has_its_own_default() -> None:
    (one,) = altered("ALTER TABLE t ADD a INT DEFAULT 1, ADD b INT, ADD c INT DEFAULT 3")
    assert [column[:2] for column in one.added] == [("a", "1"), ("b", None), ("c", "3")]


def test_an_added_column_is_followed_whatever_the_case_of_its_name() -> None:
    changes = [("price", "cost"), ("Gone", None), (None, "later")]
    added = [AddedColumn("Price", "0"), AddedColumn("GONE", "1"), AddedColumn("Stays", "2")]
    assert [one.name for one in kept_columns(added, changes)] == ["cost", "Stays"]
