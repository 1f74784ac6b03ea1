"""A Parquet file of which a column is encrypted is one reject: asked for it, pyarrow would end the
process that lands."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from sluice.containers.csv_rows import CsvStyle
from tests.unit.tablefiles import look


class _Keys(pe.KmsClient):  # type: ignore[misc]
    """Hands out every key."""

    def __init__(self, _: pe.KmsConnectionConfig) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


def encrypted(plaintext_footer: bool) -> bytes:
    asked = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=plaintext_footer
    )
    made = pe.CryptoFactory(_Keys).file_encryption_properties(pe.KmsConnectionConfig(), asked)
    table, written = pa.table({"a": [1, 2], "b": ["x", "y"]}), io.BytesIO()
    with pq.ParquetWriter(written, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    return written.getvalue()


@pytest.mark.parametrize(
    ("plaintext_footer", "reason"), [(True, "damaged_parquet"), (False, "not_json_nor_avro")]
)
def test_an_encrypted_column_makes_the_file_one_reject(
    tmp_path: Path, plaintext_footer: bool, reason: str
) -> None:
    found = look(tmp_path, "a.parquet", encrypted(plaintext_footer), CsvStyle())
    assert [r.reason for r in found.rejects] == [reason]
