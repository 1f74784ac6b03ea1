"""Charset names in DTS Avro: those of MySQL, PostgreSQL, Oracle and Java."""

from __future__ import annotations

from typing import Final

# Sources: PostgreSQL's manual, "Character Set Support"; Oracle's Globalization Support Guide, A.
_OF_POSTGRESQL: Final = {
    "euc_jp": "EUC-JP", "euc_kr": "EUC-KR", "euc_cn": "GB2312", "euc_tw": "x-EUC-TW",
    "uhc": "x-windows-949", "johab": "x-Johab", "win866": "IBM866", "win874": "x-windows-874",
    "latin3": "ISO-8859-3", "latin4": "ISO-8859-4", "latin9": "ISO-8859-15",
    "latin10": "ISO-8859-16", "koi8": "KOI8-R",
    **{f"iso_8859_{part}": f"ISO-8859-{part}" for part in range(5, 9)},
}  # fmt: skip
_OF_ORACLE: Final = {
    "us7ascii": "US-ASCII", "al16utf16": "UTF-16BE", "us8pc437": "IBM437", "we8pc850": "IBM850",
    "ee8pc852": "IBM852", "ru8pc866": "IBM866", "cl8koi8r": "KOI8-R", "th8tisascii": "TIS-620",
    "we8iso8859p1": "ISO-8859-1", "ee8iso8859p2": "ISO-8859-2", "cl8iso8859p5": "ISO-8859-5",
    "el8iso8859p7": "ISO-8859-7", "iw8iso8859p8": "ISO-8859-8", "we8iso8859p9": "ISO-8859-9",
    "we8iso8859p15": "ISO-8859-15", "ee8mswin1250": "windows-1250", "cl8mswin1251": "windows-1251",
    "we8mswin1252": "windows-1252", "el8mswin1253": "windows-1253", "tr8mswin1254": "windows-1254",
    "iw8mswin1255": "windows-1255", "ar8mswin1256": "windows-1256", "blt8mswin1257": "windows-1257",
    "vn8mswin1258": "windows-1258", "zhs16gbk": "GBK", "zhs16cgb231280": "GB2312",
    "zhs32gb18030": "GB18030", "zht16big5": "Big5", "zht16mswin950": "x-windows-950",
    "se8iso8859p3": "ISO-8859-3", "nee8iso8859p4": "ISO-8859-4", "ar8iso8859p6": "ISO-8859-6",
    "blt8iso8859p13": "ISO-8859-13", "cl8koi8u": "KOI8-U", "tr8pc857": "IBM857",
    "zht32euc": "x-EUC-TW",
    "zht16hkscs": "Big5-HKSCS", "ja16sjis": "windows-31j", "ja16sjistilde": "windows-31j",
    "ja16euc": "EUC-JP", "ko16ksc5601": "EUC-KR", "ko16mswin949": "x-windows-949",
}  # fmt: skip
# Java lacks the charsets of the last two lines: Alibaba's SDK (JDKCharsetMapper) takes the nearest.
# MySQL's euckr includes the Windows extensions.
_OF_MYSQL: Final = {
    "ascii": "US-ASCII", "latin1": "ISO-8859-1", "latin2": "ISO-8859-2", "latin5": "ISO-8859-9",
    "latin7": "ISO-8859-13", "greek": "ISO-8859-7", "hebrew": "ISO-8859-8", "cp850": "IBM850",
    "cp852": "IBM852", "cp866": "IBM866", "koi8r": "KOI8-R", "koi8u": "KOI8-U",
    "macce": "x-MacCentralEurope", "macroman": "x-MacRoman", "tis620": "TIS-620",
    "gbk": "GBK", "gb2312": "GB2312", "gb18030": "GB18030", "big5": "Big5",
    "sjis": "Shift_JIS", "cp932": "windows-31j", "ujis": "EUC-JP",
    "eucjpms": "x-eucJP-Open", "euckr": "x-windows-949",
    "ucs2": "UTF-16BE", "utf16": "UTF-16BE", "utf16le": "UTF-16LE", "utf32": "UTF-32BE",
    **dict.fromkeys(("armscii8", "dec8", "geostd8", "hp8", "swe7"), "windows-1252"),
    "keybcs2": "IBM852",
}  # fmt: skip
_OF_JAVA: Final = {
    "us-ascii": "US-ASCII", "utf-16": "UTF-16", "utf-16be": "UTF-16BE", "utf-16le": "UTF-16LE",
    "utf-32": "UTF-32", "shift_jis": "Shift_JIS", "euc-jp": "EUC-JP", "euc-kr": "EUC-KR",
    "windows-31j": "windows-31j", "ms932": "windows-31j", "ms936": "GBK", "ms949": "x-windows-949",
    "ms950": "x-windows-950", "big5-hkscs": "Big5-HKSCS", "koi8-r": "KOI8-R", "koi8-u": "KOI8-U",
    "tis-620": "TIS-620", "ms874": "x-windows-874", "cp936": "GBK", "windows-936": "GBK",
    "euc-cn": "GB2312", "euc-tw": "x-EUC-TW", "x-euc-tw": "x-EUC-TW", "x-johab": "x-Johab",
    "x-macroman": "x-MacRoman", "x-maccentraleurope": "x-MacCentralEurope", "x-sjis": "Shift_JIS",
    "utf-32be": "UTF-32BE", "utf-32le": "UTF-32LE",
    **{f"{name}{part}": f"ISO-8859-{part}" for part in (*range(1, 10), 13, 15, 16)
       for name in ("iso-8859-", "iso8859-", "iso8859_", "iso_8859-")},
    **{f"{name}{page}": f"IBM{page}" for page in (437, 850, 852, 855, 857, 866)
       for name in ("ibm", "cp")},
    # Their names with `cp` are IBM's in Java, and Microsoft's elsewhere.
    **{f"{name}{page}": f"x-windows-{page}" for page in (874, 949, 950)
       for name in ("windows-", "x-windows-")},
    **{f"{name}{page}": f"windows-{page}" for page in range(1250, 1259)
       for name in ("windows-", "cp", "win")},
}  # fmt: skip
JAVA_CHARSETS: Final = {**_OF_MYSQL, **_OF_POSTGRESQL, **_OF_ORACLE, **_OF_JAVA}
"""A charset's name at its source, in lower case → Java's, which Spark's `decode` takes."""
