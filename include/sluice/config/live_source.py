"""The live source that `sluice verify --source` reads: what may be said of it, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sluice.config.secrets import holds_secret
from sluice.environment import ENV_SOURCE_PASSWORD, ENV_SOURCE_USER
from sluice.errors import ConfigError

POSTGRES: Final = "jdbc:postgresql:"
MARIADB: Final = "jdbc:mariadb:"
MYSQL: Final = "jdbc:mysql:"
_KNOWN: Final = (POSTGRES, MARIADB, MYSQL)


@dataclass(frozen=True)
class LiveSource:
    """A database by its JDBC address, which holds no secret.

    `watermark`: the source is as it was then, events after it do not count; None: all count.
    """

    address: str
    watermark: datetime | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError for an address that cannot be read, or should not be shown."""
        if holds_secret(self.address):
            raise ConfigError(
                f"--source: expected no password in the address; set {ENV_SOURCE_USER} and "
                f"{ENV_SOURCE_PASSWORD} in the environment"
            )
        if not self.address.startswith(_KNOWN):
            raise ConfigError(
                f"--source: expected {', '.join(_KNOWN[:-1])} or {_KNOWN[-1]} and "
                f"//host:port/database, got {self.address!r}; no other database can be read"
            )

    @property
    def arguments(self) -> tuple[str, ...]:
        """As the driver takes it."""
        until = () if self.watermark is None else ("--watermark", self.watermark.isoformat())
        return ("--source", self.address, *until)

    @property
    def shown(self) -> str:
        """For reports: without the connection's settings."""
        return self.address.partition("?")[0]


def credentials() -> dict[str, str]:
    """User and password as JDBC's properties, where the environment has them."""
    found = {
        "user": os.environ.get(ENV_SOURCE_USER),
        "password": os.environ.get(ENV_SOURCE_PASSWORD),
    }
    return {name: value for name, value in found.items() if value}
