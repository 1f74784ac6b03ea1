"""pyarrow's S3 client with as many tries as boto3's has here; by itself it gives up after three."""

from __future__ import annotations

from pyarrow.fs import AwsStandardS3RetryStrategy

from sluice.objects.s3_store import ATTEMPTS


class PatientS3Retries(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """pyiceberg makes it by its name, without arguments (`s3.retry-strategy-impl`)."""

    def __init__(self) -> None:
        super().__init__(max_attempts=ATTEMPTS)
