"""MongoDB's Extended JSON in one spelling: Debezium writes two in one stream, or three.

Sources: Debezium's `JsonSerialization` (an image by `JsonMode.STRICT`, or what
`json.serialization.mode` says since debezium#7603; a record's key and `updatedFields` by
`JsonMode.RELAXED`) and the converters of each mode in the driver's `org.bson.json`. STRICT and
RELAXED differ in five types; EXTENDED writes these as RELAXED does, each number of a document as
RELAXED's int64 and NaN, and a date by its milliseconds:

| | STRICT | RELAXED | kept |
|---|---|---|---|
| int64 | `{"$numberLong": "7"}` | `7`, as an int32 | `7` |
| date | `{"$date": 0}` | `{"$date": "1970-01-01T00:00:00Z"}`, outside of the years 1970 to 9999 |
|      | | `{"$date": {"$numberLong": "-1"}}` | `{"$date": 0}` |
| binary | `{"$binary": "AA==", "$type": "00"}` |
|        | | `{"$binary": {"base64": "AA==", "subType": "00"}}` | as STRICT |
| regular expression | `{"$regex": "a", "$options": ""}` |
|        | | `{"$regularExpression": {"pattern": "a", "options": ""}}` | as STRICT |
| NaN, infinities | `NaN` | `{"$numberDouble": "NaN"}` | `NaN` |

So an image keeps STRICT's spelling, but for int64, which RELAXED writes like int32.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_TEXT: Final = r'("[^"\\]*+(?:\\.[^"\\]*+)*+")'
_INT: Final = r'\{\s*"\$number(?:Long|Int)"\s*:\s*"(-?\d+)"\s*\}'
_DOUBLE: Final = (
    r'\{\s*"\$numberDouble"\s*:\s*"(NaN|-?Infinity|-?\d++(?:\.\d++)?(?:[Ee][+-]?\d++)?)"\s*\}'
)
_DATE: Final = r'(?<="\$date")\s*:\s*"([^"]*)"'
_BINARY: Final = (
    r'(?<="\$binary")(\s*:\s*)\{\s*"base64"\s*:\s*("[^"]*")\s*,\s*'
    r'"subType"\s*:\s*("[^"]*")\s*\}\s*\}'
)
_PATTERN: Final = (
    r'\{\s*"\$regularExpression"\s*:\s*\{\s*'
    rf'"pattern"\s*:\s*{_TEXT}\s*,\s*"options"\s*:\s*{_TEXT}\s*\}}\s*\}}'
)
_RELAXED: Final = {
    _DOUBLE: "$1",
    _BINARY: r'$1$2,"\$type":$3}',
    _PATTERN: r'{"\$regex":$1,"\$options":$2}',
}
_MAY_BE_RELAXED: Final = ('"$numberDouble"', '"base64"', '"$regularExpression"')


def one_spelling(document: Column) -> Column:
    """Return a document's text in the kept spelling; see above.

    It works on the raw text, where quotes inside strings are escaped, so that no string looks like
    one of these objects. Few documents hold a RELAXED object; the others skip these searches.
    """
    counted = F.regexp_replace(document, _INT, "$1")
    strict = reduce(lambda text, pair: F.regexp_replace(text, *pair), _RELAXED.items(), counted)
    may_be = reduce(or_, map(document.contains, _MAY_BE_RELAXED), document.rlike(_DATE))
    return F.when(may_be, _in_milliseconds(strict)).otherwise(counted)


def _in_milliseconds(text: Column) -> Column:
    """Replace ISO dates by their milliseconds; text that is no date stays."""

    def milliseconds(date: Column) -> Column:
        counted = F.unix_millis(date.try_cast("timestamp")).cast("string")
        return F.concat(F.lit(":"), F.coalesce(counted, F.concat(F.lit('"'), date, F.lit('"'))))

    between = F.split(text, _DATE, -1)
    dates = F.transform(F.regexp_extract_all(text, F.lit(_DATE), F.lit(1)), milliseconds)
    pairs = F.zip_with(between, dates, lambda a, b: F.concat(a, F.coalesce(b, F.lit(""))))
    return F.array_join(pairs, "")
