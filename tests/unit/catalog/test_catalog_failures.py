"""What an error of a catalog, a store or a disk means: whether to try again, and where to look."""

from __future__ import annotations

import pytest

from sluice.catalog.failures import as_sluice_error
from sluice.errors import TerminalError


def test_a_store_that_denies_access_is_explained_with_the_variables_that_have_its_keys() -> None:
    error = OSError("When testing for existence of bucket 'w': AWS Error ACCESS_DENIED during Head")
    advice = r"; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, .*SLUICE_S3_ENDPOINT.*, and the"
    with pytest.raises(TerminalError, match=advice):
        raise as_sluice_error(error)
