"""The configuration's formats and options are those that the decoders have."""

from __future__ import annotations

import pytest

from sluice.config.formats import FORMAT_NAMES, OPTIONS, refuse_unknown_options
from spark_jobs.formats import FORMATS


def test_every_decoder_has_a_name_and_every_name_a_decoder() -> None:
    assert set(FORMAT_NAMES) == FORMATS.formats.keys()


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_the_configuration_knows_a_decoders_options(name: str) -> None:
    assert set(OPTIONS[name]) == FORMATS.get(name).options.keys()


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_other_options_are_refused_with_those_that_there_are(name: str) -> None:
    refuse_unknown_options(name, OPTIONS[name])
    expected = f"options of {name}: {', '.join(OPTIONS[name]) or 'it has none'}"
    with pytest.raises(ValueError, match=f"^{expected}$"):
        refuse_unknown_options(name, [*OPTIONS[name], "nope"])
