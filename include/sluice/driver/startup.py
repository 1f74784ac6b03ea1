"""A quick start of the driver's JVM: the classes of a load, read and verified once, at set-up.

The JVM takes such an archive only where its class path holds no folder with files in it, as Spark's
conf folder is. So Spark is given an empty one, and its defaults by file. What the archive does not
fit any more (another Java, other jars) the JVM passes over, and starts as it does without.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[3]
ARCHIVE: Final = CHECKOUT / ".jars" / "classes.jsa"
NO_CONF: Final = CHECKOUT / ".jars" / "no-conf"
_CONF_DIR: Final = "SPARK_CONF_DIR"
_JAVA_HOME: Final = re.compile(r"^export JAVA_HOME='([^']+)'$", re.MULTILINE)
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


def possible() -> bool:
    """Whether Spark's settings are those that the set-up wrote, and nobody has his own."""
    return _CONF_DIR not in os.environ and NO_CONF.is_dir() and defaults_file().is_file()


def usable() -> bool:
    """Whether there is an archive, and the driver can be started so that the JVM takes it."""
    return ARCHIVE.is_file() and possible()


def defaults_file() -> Path:
    """Spark's defaults as the set-up wrote them: where the jars are."""
    return _spark_conf() / "spark-defaults.conf"


def java_options() -> str:
    """What has the JVM use the archive, without a word where it can't; '' where there is none."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if usable() else ""


def recording_options() -> str:
    """What has the JVM write the archive, of the classes that it loaded, as it ends."""
    return f"-XX:+UseParallelGC -XX:ArchiveClassesAtExit={ARCHIVE} {_QUIET}"


def environment() -> dict[str, str]:
    """The variables that stand in for Spark's conf folder."""
    script = _spark_conf() / "spark-env.sh"
    java = _JAVA_HOME.search(script.read_text()) if script.is_file() else None
    return {_CONF_DIR: str(NO_CONF)} | ({"JAVA_HOME": java[1]} if java else {})


def _spark_conf() -> Path:
    found = find_spec("pyspark")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0] if places else ".") / "conf"
