"""The live source that `sluice verify --source` compares with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sluice.config.secrets import holds_secret
from sluice.environment import ENV_SOURCE_PASSWORD, ENV_SOURCE_USER, from_environment
from sluice.errors import ConfigError

POSTGRES: Final = "jdbc:postgresql:"
MARIADB: Final = "jdbc:mariadb:"
MYSQL: Final = "jdbc:mysql:"
_KNOWN: Final = (POSTGRES, MARIADB, MYSQL)
_HOST: Final = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])?(?::\d+)?"
# Hosts, a database and settings. Drivers read more forms, some with a password among the hosts.
_ADDRESS: Final = re.compile(
    rf"jdbc:(?:postgresql|mariadb|mysql):(?:[a-z-]+:)?//{_HOST}(?:,{_HOST})*(?:/[^?;=,()@]*)?(?:\?.*)?"
)


@dataclass(frozen=True)
class LiveSource:
    """A database by its JDBC address, without secrets.

    `watermark`: the time as of which to compare; later events are ignored. None: no event is.
    """

    address: str
    watermark: datetime | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for an address that is unsupported or holds a secret."""
        if holds_secret(self.address):
            raise ConfigError(
                f"--source: expected no password in the address; set {ENV_SOURCE_USER} and "
                f"{ENV_SOURCE_PASSWORD} in the environment"
            )
        if not _ADDRESS.fullmatch(self.address):
            raise ConfigError(  # without the address: whatever it is, it may hold a password
                f"--source: expected {', '.join(_KNOWN[:-1])} or {_KNOWN[-1]} and "
                "//host:port/database?settings; no other database, and no other form, can be read"
            )

    @property
    def arguments(self) -> tuple[str, ...]:
        """The driver's command-line arguments."""
        until = () if self.watermark is None else ("--watermark", self.watermark.isoformat())
        return ("--source", self.address, *until)

    @property
    def shown(self) -> str:
        """The address for reports, without connection settings."""
        return self.address.partition("?")[0]


def live_source(address: str | None, watermark: datetime | None) -> LiveSource | None:
    """Return the source of `sluice verify --source`; None without an address.

    `watermark`: UTC if it has no zone. Raises ConfigError for a watermark without an address.
    """
    if address is None:
        if watermark is not None:
            raise ConfigError("sluice verify: --watermark needs --source, whose state it dates")
        return None
    if watermark is not None and watermark.tzinfo is None:
        watermark = watermark.replace(tzinfo=UTC)
    return LiveSource(address, watermark)


def credentials() -> dict[str, str]:
    """Return user and password as JDBC properties, as far as the environment has them."""
    return from_environment({"user": ENV_SOURCE_USER, "password": ENV_SOURCE_PASSWORD})
