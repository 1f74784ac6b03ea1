"""Fewer imports, so that commands start sooner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_PANDAS: Final = "pandas"


class _Absent(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"a command works without {fullname}", name=fullname)
        return None


def without_pandas() -> None:
    """Hide pandas from this process: pyarrow would import it, which takes half a second, and only
    pyspark-client needs it."""
    sys.meta_path.insert(0, _Absent())
