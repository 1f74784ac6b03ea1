"""`spark.conf` of the project: any Spark setting except secrets and settings that
tables depend on."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

from sluice.config.secrets import refuse_secret_settings

# With other values of these settings the same files would give other tables.
FIXED_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Names come from files, and a name like ${env:…} would be replaced by what the environment
    # holds.
    "spark.sql.variable.substitute": "false",
    # If two maps are merged, the second one's values are used, in the first one's order.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # `decode` also reads GBK and similar charsets, and shows what it cannot read as U+FFFD instead
    # of an error.
    "spark.sql.legacy.javaCharsets": "true",
    "spark.sql.legacy.codingErrorAction": "true",
    # Records that cannot be read are quarantined, never left out.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}

_OF_SPARK: Final = "spark."


def _refuse_fixed(conf: dict[str, Any]) -> dict[str, Any]:
    found = [
        f"{key} is always {FIXED_SETTINGS[key]}"
        for key, value in conf.items()
        if key in FIXED_SETTINGS and str(value).lower() != FIXED_SETTINGS[key].lower()
    ]
    if found:
        raise ValueError(f"no setting that tables depend on: {', '.join(found)}; leave it out")
    return conf


def _refuse_others(conf: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError for names that spark-submit passes over with a warning."""
    if others := [key for key in conf if not key.startswith(_OF_SPARK)]:
        raise ValueError(
            f"settings that begin with `{_OF_SPARK}` (Hadoop's with `{_OF_SPARK}hadoop.`), without "
            f"{', '.join(others)}"
        )
    return conf


SparkConf = Annotated[
    dict[str, str | int | float | bool],
    AfterValidator(_refuse_others),
    AfterValidator(_refuse_fixed),
    BeforeValidator(refuse_secret_settings),
]
