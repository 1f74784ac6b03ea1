"""What stands for a value that was not sent, by the connector's placeholder."""

from __future__ import annotations

import pytest

from spark_jobs.formats.common.unsent import spellings


def test_octets_in_hexadecimal_are_spelt_as_the_text_that_they_are() -> None:
    """As PostgreSQL's connector takes them; for the others the whole option is the text."""
    told = spellings("hex:676F6e65")
    assert set(spellings("gone")) < set(told)
    assert {"gone", "Z29uZQ==", "676f6e65", '["gone"]', "[103,111,110,101]"} <= set(told)
    assert "hex:676F6e65" in told


def test_octets_may_be_no_text() -> None:
    told = spellings("hex:ff41")
    assert {"\ufffdA", "/0E=", "ff41", "[-1,65]"} <= set(told)


@pytest.mark.parametrize("placeholder", ["hex:", "hex:6", "hex:6g", "hex:67 6f", "HEX:67"])
def test_what_is_not_in_hexadecimal_is_text(placeholder: str) -> None:
    told = spellings(placeholder)
    assert told[0] == placeholder
    assert not {"", "g", "go"} & set(told)
    assert placeholder.encode().hex() in told
