"""The dialects of SQL whose statements are read, by the names of sqlglot's grammars."""

from __future__ import annotations

from typing import Final

MYSQL: Final = "mysql"
POSTGRES: Final = "postgres"
ORACLE: Final = "oracle"
SQL_SERVER: Final = "tsql"
