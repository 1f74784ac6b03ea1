"""The Spark and Java that the set-up chose, and a quick start of the driver's JVM, with an archive
(CDS) of a load's classes.

The JVM uses such an archive only if its class path has no folder with files, such as Spark's conf
folder. So Spark gets an empty conf folder, and its defaults by file. The JVM ignores an archive
that no longer fits (another Java, other jars).
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sluice.environment import CHECKOUT

ARCHIVE: Final = CHECKOUT / ".jars" / "classes.jsa"
NO_CONF: Final = CHECKOUT / ".jars" / "no-conf"
_CONF_DIR: Final = "SPARK_CONF_DIR"
_JAVA_HOME: Final = re.compile(r"^export JAVA_HOME='([^']+)'$", re.MULTILINE)
_DEFAULTS: Final = "spark-defaults.conf"
_SETTING: Final = re.compile(r"^[ \t]*([^#!\s=:][^\s=:]*)[ \t=:]+(.*?)[ \t\r]*$", re.MULTILINE)
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


def possible() -> bool:
    """Whether Spark's settings are those that the set-up wrote: the user has set no conf folder."""
    return _CONF_DIR not in os.environ and NO_CONF.is_dir() and defaults_file().is_file()


def usable() -> bool:
    """Whether there is an archive, and the driver can be started so that the JVM uses it."""
    return ARCHIVE.is_file() and possible()


def defaults_file() -> Path:
    """Return the path of Spark's defaults, which the set-up wrote; they name the jars."""
    return _spark_conf() / _DEFAULTS


def settings() -> dict[str, str]:
    """Return the set-up's defaults that a conf folder of the user's own lacks: without the jars
    that they name, Spark knows no Iceberg."""
    folder = os.environ.get(_CONF_DIR)
    if not folder:
        return {}
    own = _settings(Path(folder) / _DEFAULTS)
    return {key: value for key, value in _settings(defaults_file()).items() if key not in own}


def _settings(file: Path) -> dict[str, str]:
    return dict(_SETTING.findall(file.read_text())) if file.is_file() else {}


def java_options() -> str:
    """Return the JVM options to use the archive, silently where it does not fit; '' without one."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if usable() else ""


def recording_options() -> str:
    """Return the JVM options to write the archive of the loaded classes at exit."""
    return f"-XX:+UseParallelGC -XX:ArchiveClassesAtExit={ARCHIVE} {_QUIET}"


def environment() -> dict[str, str]:
    """Return the environment variables that replace Spark's conf folder."""
    return {_CONF_DIR: str(NO_CONF), **java()}


def java() -> dict[str, str]:
    """Return JAVA_HOME as the set-up found it, for Spark without the set-up's conf folder."""
    script = _spark_conf() / "spark-env.sh"
    found = _JAVA_HOME.search(script.read_text()) if script.is_file() else None
    return {"JAVA_HOME": found[1]} if found else {}


def spark_home() -> Path:
    """Return the folder of the Spark that is installed beside Sluice."""
    spec = find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0] if places else ".")


def _spark_conf() -> Path:
    return spark_home() / "conf"
