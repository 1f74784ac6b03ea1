"""Runs spark-submit as a child process and turns its exit code into one of Sluice's errors."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

from sluice.bounds import MOST_AVRO_BYTES, MOST_AVRO_ITEMS
from sluice.config.project import PROJECT_FILE, Project
from sluice.environment import CHECKOUT
from sluice.errors import ConfigError, SluiceError, TerminalError, TransientError, names_of
from sluice.manifest import JSON_LINES, Manifest, SourceFile
from sluice.spark_submit import startup
from sluice.spark_submit.child_process import SIGNALS, run_child

ENTRY_POINTS: Final = CHECKOUT / "spark_jobs"
LOAD_BATCH: Final = ENTRY_POINTS / "load_batch.py"
PLAN_BATCH: Final = ENTRY_POINTS / "plan_batch.py"
_LINES_SHOWN: Final = 20
_NO_COMMAND: Final = (126, 127)  # a shell's, of one that cannot be run or is not there
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Damaged bytes may claim any length, and Avro allocates the memory before it reads on.
_AVRO_LIMITS: Final = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={most}"
    for name, most in (
        ("bytes", MOST_AVRO_BYTES),
        ("string", MOST_AVRO_BYTES),
        ("collectionItems", MOST_AVRO_ITEMS),
    )
)
# The optimizing compiler (C2) competes with the data for the cores. A small batch ends before C2 is
# worth it, and runs without it (200 k events on 2 cores: 36 s instead of 45), but with the whole
# code cache: the fifth that C1 gets by itself is full after a batch of many tables, and nothing
# more is compiled (60 tables: 148 s instead of 96). In a larger batch only hot code is compiled by
# C2 (1 M events: 68 s instead of 93 without C2): at four times the JVM's thresholds, and ten times
# that for query planning, which works on no rows (64 s).
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
"""Rough ratio of text to bytes in a compressed or binary file."""
# A JVM changes case by the machine's language: in Turkish, I is not the upper case of i.
JVM_DEFAULTS: Final = f"{_AVRO_LIMITS} -Duser.language=en"
# If Python encodes file names in UTF-8, the JVM must too: it uses the locale alone, and in C, or a
# locale that is not installed, it finds no file whose name is not ASCII.
_ENCODING: Final = "utf-8"
_LOCALE: Final = "C.UTF-8"
_DEFAULT_CONF: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": JVM_DEFAULTS,
    "spark.executor.defaultJavaOptions": JVM_DEFAULTS,
}


def is_small(manifest: Manifest) -> bool:
    """Whether a batch ends before the JVM's optimizing compiler is worth its cost."""
    if manifest.rebuild is not None:
        return False
    text = sum(f.size if _is_plain(f) else f.size * _AS_PLAIN_TEXT for f in manifest.files)
    return text <= _SMALL_BATCH_BYTES


def _is_plain(file: SourceFile) -> bool:
    return file.container == JSON_LINES and not file.staged and not file.url.endswith(_COMPRESSED)


def jvm_options(small: bool) -> str:
    """Return the default options for garbage collection and compilation of a driver's JVM."""
    compiler = _COMPILE_QUICKLY if small else f"{_COMPILE_LATE} {_PLAN_UNCOMPILED}"
    return f"-XX:+UseParallelGC {compiler}"


def spark_conf(project: Project, *, small: bool) -> dict[str, str]:
    """Return the settings needed before the JVM starts; never a secret (see catalog/spark.py).

    `small`: see `is_small`.
    """
    given = {key: str(value) for key, value in project.spark.conf.items()}
    # Before `spark.pyspark.python` and the environment's PYSPARK_PYTHON, which are for executors.
    own = {"spark.pyspark.driver.python": sys.executable, JAVA_OPTIONS: jvm_options(small)}
    conf = {**_DEFAULT_CONF, **startup.settings(), **own, **given}
    return {**conf, JAVA_OPTIONS: f"{conf[JAVA_OPTIONS]} {startup.java_options()}".strip()}


def properties_file() -> str | None:
    """Return the path of Spark's defaults if a quick start hides the conf folder, else None."""
    return str(startup.defaults_file()) if startup.usable() else None


def driver_environment() -> dict[str, str]:
    """Return an environment in which the driver finds this checkout's Spark, Python and Sluice."""
    variables = {**startup.java(), **os.environ, "SPARK_HOME": str(startup.spark_home())}
    path = [str(Path(sys.executable).parent), variables.get("PATH", "")]
    variables["PATH"] = os.pathsep.join(path)
    places = (CHECKOUT, CHECKOUT / "include")
    variables["PYTHONPATH"] = os.pathsep.join(str(place) for place in places)
    if sys.getfilesystemencoding() == _ENCODING:
        variables["LC_ALL"] = _LOCALE
    return {**variables, **(startup.environment() if startup.usable() else {})}


def submit_command(
    project: Project, entry: Path, *arguments: str, small: bool = False
) -> list[str]:
    """Return the command that runs an entry point on the project."""
    settings = spark_conf(project, small=small).items()
    conf = [part for key, value in settings for part in ("--conf", f"{key}={value}")]
    defaults = properties_file()
    return [
        "spark-submit", *(("--properties-file", defaults) if defaults else ()),
        "--master", project.spark.master, *conf, str(entry),
        "--project", str(project.root), *arguments,
    ]  # fmt: skip


def submit(project: Project, entry: Path, *arguments: str, small: bool = False) -> str:
    """Run a driver to its end and return its last line, which is its result as JSON.

    `small`: see `is_small`. Raises TransientError or TerminalError with the driver's last words,
    TransientError where it takes longer than `spark.max_load_seconds`.
    """
    command = submit_command(project, entry, *arguments, small=small)
    seconds = project.spark.max_load_seconds
    done = run_child(command, driver_environment(), seconds)
    if done.code == 0:
        return (done.output.strip().splitlines() or [""])[-1]
    # spark-submit prints a Python driver's errors on standard output.
    printed = done.errors + "\n" + done.output
    if done.code is None:
        raise TransientError(
            f"the Spark driver was stopped after {seconds} s: {_last_words(printed)}\nIf a batch "
            f"needs longer, raise spark.max_load_seconds in {project.root / PROJECT_FILE}"
        ).in_lines()
    raise driver_error(done.code, printed)


def driver_error(code: int, printed: str) -> SluiceError:
    """Return the error of a driver by its exit code and what it printed: TerminalError where it
    named an error that lasts or never began, else TransientError, since one that named none just
    died."""
    message = _last_words(printed)
    lasts = code in (ConfigError.exit_code, *_NO_COMMAND) or _name(message) in names_of(
        TerminalError
    )
    again = code == TransientError.exit_code or _has_died(code) or not lasts
    kind = TransientError if again else TerminalError
    said = message or "it printed nothing"
    return kind(f"the Spark driver ended with code {code}{_killed(code)}: {said}").in_lines()


def _has_died(code: int) -> bool:
    """Whether an exit code means that the driver was killed or crashed, so that its output does not
    say why.

    A shell reports a signal as 128 plus its number.
    """
    return code < 0 or code > SIGNALS


def _killed(code: int) -> str:
    """Return in brackets that a driver was killed, as the kernel does where memory is short."""
    if code not in (-signal.SIGKILL, SIGNALS + signal.SIGKILL):
        return ""
    return " (killed by signal 9, often for want of memory: spark.driver.memory)"


def _last_words(printed: str) -> str:
    """Return the driver's last error from its name on, or the last lines where it named none.

    A name counts only at the start of a line, since messages about left-out tables contain names of
    errors too.
    """
    known = names_of(SluiceError)
    lines = [line for line in printed.splitlines() if line.strip()]
    ours = [i for i, line in enumerate(lines) if _name(line) in known]
    return "\n".join(lines[ours[-1] :] if ours else lines[-_LINES_SHOWN:])


def _name(message: str) -> str:
    return message.partition(": ")[0]
