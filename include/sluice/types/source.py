"""Column types for the types in CREATE TABLE statements.

A type says how the source stores a column, not how a file writes its values. So bytes, bits and
times of day stay text: only the format or a hint says whether they are base64, hexadecimal, a
number or a list of numbers.
"""

from __future__ import annotations

from typing import Final

from sluice.ddl.create_table import SourceType
from sluice.ddl.dialects import MYSQL, ORACLE, POSTGRES, SQL_SERVER
from sluice.types.columns import LONGEST_FLOAT, MOST_DIGITS, STRING, ColumnType, decimal
from sluice.types.mysql import is_known, mysql_type

_INT: Final = ColumnType("int")
_BIGINT: Final = ColumnType("bigint")
_FLOAT: Final = ColumnType("float")
_DOUBLE: Final = ColumnType("double")
_BOOLEAN: Final = ColumnType("boolean")
_DATE: Final = ColumnType("date")
_LOCAL: Final = ColumnType("timestamp_ntz")
_INSTANT: Final = ColumnType("timestamp")
_DECIMAL: Final = ColumnType("decimal")
"""Placeholder: the digits are those that the statement states."""
_BY_BITS: Final = ColumnType("double", "bits")
"""Placeholder: float or double, by the bits that the statement states."""
_TEXTS: Final = {
    POSTGRES: (
        "bit", "bit varying", "box", "bpchar", "bytea", "char", "character", "character varying",
        "cidr", "circle", "citext", "datemultirange", "daterange", "hstore", "inet", "int4range",
        "int8range", "interval", "json", "jsonb", "line", "lseg", "ltree", "macaddr", "macaddr8",
        "money", "name", "national character", "nchar", "numrange", "path", "pg_lsn", "point",
        "polygon", "regclass", "text", "tid", "time", "timetz", "tsquery", "tsrange", "tstzrange",
        "tsvector", "uuid", "varbit", "varchar", "xid", "xml",
    ),
    # FLOAT has up to 126 bits, more than a double. Texts WITH LOCAL TIME ZONE may be in any zone.
    ORACLE: (
        "anydata", "bfile", "blob", "char", "char varying", "character", "character varying",
        "clob", "double precision", "float", "interval", "json", "long", "long raw",
        "timestamp with local time zone",
        "national char", "national character", "nchar", "nclob", "nvarchar2", "raw", "real",
        "rowid", "urowid", "varchar", "varchar2", "xmltype",
    ),
    SQL_SERVER: (
        "binary", "char", "character", "image", "json", "nchar", "ntext", "nvarchar", "rowversion",
        "sql_variant", "sysname", "text", "time", "timestamp", "uniqueidentifier", "varbinary",
        "varchar", "xml",
    ),
}  # fmt: skip
_TYPES: Final[dict[str, dict[str, ColumnType]]] = {
    POSTGRES: {
        **dict.fromkeys(("smallint", "int2", "integer", "int", "int4"), _INT),
        **dict.fromkeys(("smallserial", "serial2", "serial", "serial4"), _INT),
        **dict.fromkeys(("bigint", "int8", "bigserial", "serial8", "oid"), _BIGINT),
        **dict.fromkeys(("numeric", "decimal", "dec"), _DECIMAL),
        **dict.fromkeys(("real", "float4"), _FLOAT),
        **dict.fromkeys(("double precision", "float8"), _DOUBLE),
        "float": _BY_BITS,
        **dict.fromkeys(("boolean", "bool"), _BOOLEAN),
        "date": _DATE,
        "timestamp": _LOCAL,
        **dict.fromkeys(("timestamp with time zone", "timestamptz"), _INSTANT),
    },
    ORACLE: {
        **dict.fromkeys(("number", "numeric", "decimal", "dec"), _DECIMAL),
        **dict.fromkeys(("integer", "int", "smallint"), decimal(MOST_DIGITS, 0)),
        "binary_float": _FLOAT,
        "binary_double": _DOUBLE,
        "boolean": _BOOLEAN,
        # Oracle's DATE has a time of day.
        **dict.fromkeys(("date", "timestamp"), _LOCAL),
        "timestamp with time zone": _INSTANT,
    },
    SQL_SERVER: {
        **dict.fromkeys(("tinyint", "smallint", "int", "integer"), _INT),
        "bigint": _BIGINT,
        **dict.fromkeys(("decimal", "numeric", "dec"), _DECIMAL),
        "money": decimal(19, 4),
        "smallmoney": decimal(10, 4),
        "real": _FLOAT,
        "double precision": _DOUBLE,
        "float": _BY_BITS,
        "bit": _BOOLEAN,
        "date": _DATE,
        **dict.fromkeys(("datetime", "datetime2", "smalldatetime"), _LOCAL),
        "datetimeoffset": _INSTANT,
    },
}
_KNOWN: Final = {
    dialect: {**dict.fromkeys(_TEXTS[dialect], STRING), **types}
    for dialect, types in _TYPES.items()
}
_MOST_PLACES: Final = 6
_DEFAULT_PLACES: Final = {"datetime2": 7, "datetimeoffset": 7}
_DEFAULT_DIGITS: Final = {SQL_SERVER: (18, 0)}
_FLAGS: Final = ("unsigned", "signed", "zerofill")
# BOOLEAN is this type; some writers use true and false for it.
_TRUTH: Final = "tinyint(1)"


def column_type(dialect: str, named: SourceType) -> ColumnType | None:
    """Return a column's type from a statement only; None for an unknown type name."""
    if dialect == MYSQL:
        return _mysql(named)
    if named.array:
        return STRING
    types = _KNOWN[dialect]
    names = (" ".join(named.words[:n]) for n in range(len(named.words), 0, -1))
    kind = next((types[name] for name in names if name in types), None)
    if kind in (_LOCAL, _INSTANT) and _is_finer(dialect, named):
        return STRING
    if kind == _DECIMAL:
        return _decimal(named.numbers or _DEFAULT_DIGITS.get(dialect, ()))
    if kind == _BY_BITS:
        bits = named.numbers[0] if named.numbers else None
        return _FLOAT if bits and bits <= LONGEST_FLOAT else _DOUBLE
    return kind


def _is_finer(dialect: str, named: SourceType) -> bool:
    """Whether a time has more decimal places than microseconds."""
    default = _DEFAULT_PLACES.get(named.words[0], 0) if dialect == SQL_SERVER else 0
    places = (*named.numbers, None)[0]
    return (default if places is None else places) > _MOST_PLACES


def _decimal(numbers: tuple[int | None, ...]) -> ColumnType:
    """Return a decimal type; string without a bound or beyond 38 digits. Oracle's `*` is 38."""
    if not numbers:
        return STRING
    precision, scale = numbers[0] or MOST_DIGITS, (*numbers, None)[1] or 0
    precision = max(precision - min(scale, 0), scale)
    return decimal(precision, max(scale, 0)) if precision <= MOST_DIGITS else STRING


def _mysql(named: SourceType) -> ColumnType | None:
    sizes = ",".join(str(n) for n in named.numbers if n is not None)
    flags = (word for word in named.words[1:] if word in _FLAGS)
    text = " ".join((named.words[0] + (f"({sizes})" if sizes else ""), *flags))
    if not is_known(text):
        return None
    kind = mysql_type("boolean" if text == _TRUTH else text)
    return STRING if named.words[0] == "bit" or kind.name in ("binary", "time") else kind
