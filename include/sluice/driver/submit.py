"""spark-submit as a child process, and its exit code as one of our errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from sluice.config.project import PROJECT_FILE, Project
from sluice.driver import startup
from sluice.driver.child_process import SIGNALS, run_child
from sluice.errors import SluiceError, TerminalError, TransientError, names_of
from sluice.manifest import JSON_LINES, Manifest, SourceFile

ENTRY_POINTS: Final = startup.CHECKOUT / "spark_jobs"
LOAD_BATCH: Final = ENTRY_POINTS / "load_batch.py"
PLAN_BATCH: Final = ENTRY_POINTS / "plan_batch.py"
_TRY_AGAIN: Final = TransientError.exit_code
_LINES_SHOWN: Final = 15
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Damaged bytes may claim any length: Avro would take the memory for it before it reads on.
_AVRO_LIMITS: Final = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={most}"
    for name, most in (("bytes", 64 << 20), ("string", 64 << 20), ("collectionItems", 1_000_000))
)
# The best compiler takes the cores that the data needs. A small batch ends before that pays: it
# goes without (200 k events on 2 cores: 36 s instead of 45), but with as much room for compiled
# code as the JVM has with it. The fifth of that which it gives the quick compiler alone is full
# after a batch of many tables, and nothing more is compiled (60 tables: 148 s instead of 96).
# In a larger batch what is compiled by the best one has to be hot (1 M events: 68 s instead of 93
# without): four times the JVM's own thresholds, and ten times that for what plans a query, for it
# works on no rows (64 s).
_COMPILE_QUICKLY: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
_COMPILE_LATE: Final = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=3000 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_PLANNING: Final = (
    *(f"{_CATALYST}.{part}" for part in ("analysis", "optimizer", "plans", "trees")),
    "org.antlr", "org.codehaus", "java.lang.invoke", "sun.invoke", "jdk.internal.org.objectweb",
)  # fmt: skip
_PLAN_UNCOMPILED: Final = "-XX:CompileCommand=quiet " + " ".join(
    f"-XX:CompileCommand=CompileThresholdScaling,{package}.*::*,10" for package in _PLANNING
)
_SMALL_BATCH_BYTES: Final = 192 << 20
_COMPRESSED: Final = (".gz", ".bz2")
_AS_PLAIN_TEXT: Final = 8
"""How many bytes of text one of a compressed or binary file may stand for, roughly."""
# A JVM takes the case of letters from the language of its machine: in Turkish I is not i.
JVM_DEFAULTS: Final = f"{_AVRO_LIMITS} -Duser.language=en"
# Where Python names files in UTF-8, the JVM has to: it goes by the locale alone, and in that of C,
# or in one that is not installed, finds no file whose name has more than ASCII.
_ENCODING: Final = "utf-8"
_LOCALE: Final = "C.UTF-8"
_DEFAULT_CONF: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": JVM_DEFAULTS,
    "spark.executor.defaultJavaOptions": JVM_DEFAULTS,
}


def is_small(manifest: Manifest) -> bool:
    """Whether a batch is loaded before the JVM's best compiler has paid for itself."""
    if manifest.rebuild is not None:
        return False
    text = sum(f.size if _is_plain(f) else f.size * _AS_PLAIN_TEXT for f in manifest.files)
    return text <= _SMALL_BATCH_BYTES


def _is_plain(file: SourceFile) -> bool:
    return file.container == JSON_LINES and not file.staged and not file.url.endswith(_COMPRESSED)


def jvm_options(small: bool) -> str:
    """How a driver's JVM collects and compiles, where the project says nothing else."""
    compiler = _COMPILE_QUICKLY if small else f"{_COMPILE_LATE} {_PLAN_UNCOMPILED}"
    return f"-XX:+UseParallelGC {compiler}"


def spark_conf(project: Project, small: bool = False) -> dict[str, str]:
    """Settings that must be there before the JVM starts; never a secret (see catalog/spark.py).

    `small`: the driver has little to do, see `is_small`.
    """
    given = {key: str(value) for key, value in project.spark.conf.items()}
    conf = {**_DEFAULT_CONF, JAVA_OPTIONS: jvm_options(small), **given}
    return {**conf, JAVA_OPTIONS: f"{conf[JAVA_OPTIONS]} {startup.java_options()}".strip()}


def properties_file() -> str | None:
    """Spark's defaults, where its own conf folder is hidden from it for a quick start."""
    return str(startup.defaults_file()) if startup.usable() else None


def driver_environment() -> dict[str, str]:
    """The environment in which the driver finds this checkout's Python and Sluice itself."""
    found = dict(os.environ)
    found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", "")])
    places = (startup.CHECKOUT, startup.CHECKOUT / "include")
    found["PYTHONPATH"] = os.pathsep.join(str(place) for place in places)
    if sys.getfilesystemencoding() == _ENCODING:
        found["LC_ALL"] = _LOCALE
    return {**found, **(startup.environment() if startup.usable() else {})}


def submit_command(
    project: Project, entry: Path, *arguments: str, small: bool = False
) -> list[str]:
    """The very command that runs an entry point on the project, for logs and for people."""
    settings = spark_conf(project, small).items()
    conf = [part for key, value in settings for part in ("--conf", f"{key}={value}")]
    defaults = properties_file()
    return [
        "spark-submit", *(("--properties-file", defaults) if defaults else ()),
        "--master", project.spark.master, *conf, str(entry),
        "--project", str(project.root), *arguments,
    ]  # fmt: skip


def submit(project: Project, entry: Path, *arguments: str, small: bool = False) -> str:
    """Run a driver to its end and return its last line, which is its result as JSON.

    `small` as for `spark_conf`. Raises TransientError or TerminalError with what it said last,
    TransientError too where it takes longer than `spark.max_load_seconds`.
    """
    command = submit_command(project, entry, *arguments, small=small)
    seconds = project.spark.max_load_seconds
    done = run_child(command, driver_environment(), seconds)
    if done.code == 0:
        return (done.output.strip().splitlines() or [""])[-1]
    # spark-submit hands on a Python driver's own words on standard output.
    told = _told(done.errors + "\n" + done.output)
    if done.code is None:
        raise TransientError(
            f"the Spark driver was stopped after {seconds} s: {told}\nIf a batch needs longer, "
            f"raise spark.max_load_seconds in {project.root / PROJECT_FILE}"
        ).in_lines()
    again = done.code == _TRY_AGAIN or has_died(done.code)
    kind = TransientError if again else TerminalError
    raise kind(f"the Spark driver ended with {done.code}: {told}").in_lines()


def has_died(code: int) -> bool:
    """Whether a driver was killed or crashed, as its code or a shell's tells: what it said before
    does not say why it ended."""
    return code < 0 or code > SIGNALS


def _told(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    ours = [i for i, line in enumerate(lines) if _is_ours(line)]
    return "\n".join(lines[ours[-1] :] if ours else lines[-_LINES_SHOWN:])


def _is_ours(line: str) -> bool:
    return line.split(":", 1)[0] in names_of(SluiceError)
