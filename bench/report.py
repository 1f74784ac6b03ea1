"""What every benchmark prints beside its figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version


def measured_on(*packages: str) -> str:
    """The machine, and the versions of Python and of these packages."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{machine}; {', '.join(f'{name} {version(name)}' for name in packages)}"
