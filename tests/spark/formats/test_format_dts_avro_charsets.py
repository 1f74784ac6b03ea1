"""DTS Avro's names of charsets, each with a character that tells it from its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DtsAvroOptions
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from tests.spark.dts_records import bare_file, characters, datum, values

pytestmark = [pytest.mark.spark, pytest.mark.formats]
PAGES = {
    1250: (0x9C, "ee8mswin1250"), 1251: (0xE0, "cl8mswin1251"), 1252: (0x80, "we8mswin1252"),
    1253: (0xE1, "el8mswin1253"), 1254: (0xDD, "tr8mswin1254"), 1255: (0xE0, "iw8mswin1255"),
    1256: (0xC7, "ar8mswin1256"), 1257: (0xE0, "blt8mswin1257"), 1258: (0xD5, "vn8mswin1258"),
}  # fmt: skip
# Python's codec, bytes in hexadecimal, the names of MySQL, PostgreSQL, Oracle and Java.
CHARSETS = [
    ("utf_8", "f09f9880", "utf8mb4 utf8 utf8mb3 utf-8 unicode al32utf8 sql_ascii"),
    ("ascii", "61", "ascii us7ascii us-ascii"),
    ("iso8859_1", "e9", "latin1 we8iso8859p1 iso-8859-1 iso8859-1 iso8859_1 iso_8859-1"),
    ("iso8859_2", "e6", "latin2 ee8iso8859p2 iso-8859-2"),
    ("iso8859_3", "a1", "latin3 se8iso8859p3 iso-8859-3"),
    ("iso8859_4", "a1", "latin4 nee8iso8859p4 iso-8859-4"),
    ("iso8859_5", "d0", "iso_8859_5 cl8iso8859p5 iso-8859-5"),
    ("iso8859_6", "c7", "iso_8859_6 ar8iso8859p6 iso-8859-6"),
    ("iso8859_7", "e1", "greek iso_8859_7 el8iso8859p7 iso-8859-7"),
    ("iso8859_8", "e0", "hebrew iso_8859_8 iw8iso8859p8 iso-8859-8"),
    ("iso8859_9", "dd", "latin5 we8iso8859p9 iso-8859-9"),
    ("iso8859_13", "e0", "latin7 blt8iso8859p13 iso-8859-13"),
    ("iso8859_15", "a4", "latin9 we8iso8859p15 iso-8859-15"),
    ("iso8859_16", "a4", "latin10 iso-8859-16 iso8859_16"),
    ("cp437", "a9", "us8pc437 ibm437 cp437"), ("cp850", "a9", "cp850 we8pc850 ibm850"),
    ("cp855", "a1", "ibm855 cp855"), ("cp857", "8d", "tr8pc857 ibm857 cp857"),
    ("cp852", "a9", "cp852 ee8pc852 keybcs2 ibm852"),
    ("cp866", "80", "cp866 win866 ru8pc866 ibm866"),
    ("koi8_r", "a4", "koi8r cl8koi8r koi8-r koi8"),
    ("koi8_u", "a4", "koi8u cl8koi8u koi8-u"),
    ("mac_roman", "88", "macroman x-macroman"), ("mac_latin2", "88", "macce x-maccentraleurope"),
    ("tis_620", "a1", "tis620 th8tisascii tis-620"),
    ("cp874", "80", "win874 windows-874 x-windows-874 ms874"),
    ("gb2312", "c4e3", "gb2312 euc_cn zhs16cgb231280 euc-cn"),
    ("gbk", "8140", "gbk zhs16gbk ms936 cp936 windows-936"),
    ("gb18030", "95328236", "gb18030 zhs32gb18030"),
    ("big5", "a4a4", "big5 zht16big5"),
    ("cp950", "f9d6", "zht16mswin950 ms950 windows-950 x-windows-950"),
    ("big5hkscs", "8fe8", "zht16hkscs big5-hkscs"),
    ("shift_jis", "82a0", "sjis shift_jis x-sjis"),
    ("cp932", "8740", "cp932 windows-31j ms932 ja16sjis ja16sjistilde"),
    ("euc_jp", "a4a2", "ujis euc_jp ja16euc euc-jp"), ("euc_jis_2004", "ada1", "eucjpms"),
    ("euc_kr", "b0a1", "euc_kr ko16ksc5601 euc-kr"), ("johab", "8861", "johab x-johab"),
    ("cp949", "8c63", "euckr uhc ko16mswin949 ms949 windows-949 x-windows-949"),
    ("utf_16_be", "4e2d", "ucs2 utf16 al16utf16 utf-16be"),
    ("utf_16_le", "2d4e", "utf16le utf-16le"),
    ("utf_16", "fffe2d4e", "utf-16"), ("utf_32_be", "00020000", "utf32 utf-32be"),
    ("utf_32_le", "00000200", "utf-32le"),
    ("utf_32", "fffe000000000200", "utf-32"),
    *((f"cp{page}", f"{byte:02x}", f"{oracle} windows-{page} cp{page} win{page}")
      for page, (byte, oracle) in PAGES.items()),
]  # fmt: skip


def test_every_name_is_of_its_charset(spark: SparkSession, tmp_path: Path) -> None:
    """Python's codecs say what the bytes are; it has none for EUC-TW."""
    cases = [
        (name, bytes.fromhex(octets), bytes.fromhex(octets).decode(codec))
        for codec, octets, names in CHARSETS
        for name in names.split()
    ]
    cases += [(name, b"\xc4\xa1", "一") for name in ["euc_tw", "euc-tw", "x-euc-tw", "zht32euc"]]
    record = characters(*((name, octets) for name, octets, _ in cases))
    file = bare_file(tmp_path / "all", [datum(record)])
    (row,) = DtsAvro().read(spark, (file,), DtsAvroOptions()).collect()
    found = dict(zip((name for name, _, _ in cases), values(row), strict=True))
    assert found == {name: text for name, _, text in cases}
