"""Retries of pyarrow's S3 client, as many as boto3's; by default it gives up after three."""

from __future__ import annotations

from pyarrow.fs import AwsStandardS3RetryStrategy

from sluice.objects.s3_store import ATTEMPTS


class S3RetryStrategy(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """Created by pyiceberg by its name (`s3.retry-strategy-impl`), without arguments."""

    def __init__(self) -> None:
        super().__init__(max_attempts=ATTEMPTS)
