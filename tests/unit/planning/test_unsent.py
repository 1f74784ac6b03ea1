"""What stands for a value that was not sent, by the connector's placeholder."""

from __future__ import annotations

from hashlib import md5
from uuid import UUID

import pytest

from spark_jobs.formats.common.unsent import spellings


def test_octets_in_hexadecimal_are_spelt_as_the_text_that_they_are() -> None:
    """As PostgreSQL's connector takes them; for the others the whole option is the text."""
    told = spellings("hex:676F6e65")
    assert {"gone", "Z29uZQ==", "676f6e65", '["gone"]', "[103,111,110,101]"} <= set(told)
    as_bytes = ["104", "101", "120", "58", "54", "55", "54", "70", "54", "101", "54", "53"]
    of_the_whole_text = {
        "hex:676F6e65", '["hex:676F6e65"]', '{"hex:676F6e65":"hex:676F6e65"}',
        '{"hex:676F6e65": "hex:676F6e65"}', "aGV4OjY3NkY2ZTY1", '["aGV4OjY3NkY2ZTY1"]',
        "6865783a3637364636653635", f"[{','.join(as_bytes)}]", f"[{', '.join(as_bytes)}]",
        f'["{UUID(bytes=md5(b"hex:676F6e65").digest(), version=3)}"]',
    }  # fmt: skip
    assert set(told) == set(spellings("gone")) | of_the_whole_text


def test_bytes_may_be_base64_for_addresses() -> None:
    """As `binary.handling.mode=base64-url-safe` writes them, with the padding."""
    told = spellings("~~gone?~~")
    assert {"fn5nb25lP35+", "fn5nb25lP35-", '["fn5nb25lP35+"]', '["fn5nb25lP35-"]'} <= set(told)
    assert len(told) == len(set(told))


def test_octets_may_be_no_text() -> None:
    told = spellings("hex:ff41")
    assert {"\ufffdA", "/0E=", "ff41", "[-1,65]"} <= set(told)


@pytest.mark.parametrize("placeholder", ["hex:", "hex:6", "hex:6g", "hex:67 6f", "HEX:67"])
def test_what_is_not_in_hexadecimal_is_text(placeholder: str) -> None:
    told = spellings(placeholder)
    assert told[0] == placeholder
    assert not {"", "g", "go"} & set(told)
    assert placeholder.encode().hex() in told
