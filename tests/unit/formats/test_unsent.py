"""What stands for a value that was not sent, by the connector's placeholder."""

from __future__ import annotations

from hashlib import md5
from uuid import UUID

import pytest

from spark_jobs.formats.common.unsent import spellings


def test_octets_in_hexadecimal_are_spelt_as_the_text_that_they_are() -> None:
    """As PostgreSQL's connector takes them; for the others the whole option is the text."""
    found = spellings("hex:676F6e65")
    assert {"gone", "Z29uZQ==", "676f6e65", '["gone"]', "[103,111,110,101]"} <= set(found)
    as_bytes = ["104", "101", "120", "58", "54", "55", "54", "70", "54", "101", "54", "53"]
    of_the_whole_text = {
        "hex:676F6e65", '["hex:676F6e65"]', '{"hex:676F6e65":"hex:676F6e65"}',
        '{"hex:676F6e65": "hex:676F6e65"}', "aGV4OjY3NkY2ZTY1", '["aGV4OjY3NkY2ZTY1"]',
        "6865783a3637364636653635", f"[{','.join(as_bytes)}]", f"[{', '.join(as_bytes)}]",
        f'["{UUID(bytes=md5(b"hex:676F6e65").digest(), version=3)}"]',
    }  # fmt: skip
    assert set(found) == set(spellings("gone")) | of_the_whole_text


def test_bytes_may_be_base64_for_addresses() -> None:
    """As `binary.handling.mode=base64-url-safe` writes them, with the padding."""
    found = spellings("~~gone?~~")
    assert {"fn5nb25lP35+", "fn5nb25lP35-", '["fn5nb25lP35+"]', '["fn5nb25lP35-"]'} <= set(found)
    assert len(found) == len(set(found))


def test_placeholder_octets_may_be_invalid_utf8() -> None:
    found = spellings("hex:ff41")
    assert {"\ufffdA", "/0E=", "ff41", "[-1,65]"} <= set(found)


@pytest.mark.parametrize("placeholder", ["hex:", "hex:6", "hex:6g", "hex:67 6f", "HEX:67"])
def test_placeholder_that_is_not_hexadecimal_is_text(placeholder: str) -> None:
    found = spellings(placeholder)
    assert found[0] == placeholder
    assert not {"", "g", "go"} & set(found)
    assert placeholder.encode().hex() in found
