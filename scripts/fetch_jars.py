#!/usr/bin/env python3
"""Bring the jars of jars.lock into .jars/, through the Ivy client that Spark ships.

    fetch_jars.py            fetch what is missing, check every sha256
    fetch_jars.py --update   fetch all, and write the sha256 found into jars.lock

Each line of the lock is a jar, and nothing is resolved transitively: the lock is the whole truth.
A mirror is named the way Ivy names it, in a settings file: IVY_SETTINGS=/path/ivysettings.xml.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "jars.lock"
JARS = ROOT / ".jars"


@dataclass(frozen=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> Path:
        return JARS / f"{self.artifact}-{self.version}.jar"

    @property
    def intact(self) -> bool:
        return self.file.is_file() and sha256(self.file) == self.sha256


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lock() -> list[Jar]:
    """The jars of the lock: `group:artifact:version sha256` a line, `#` for comments."""
    jars = []
    for number, line in enumerate(LOCK.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        parts = words[0].split(":")
        if len(parts) != 3 or len(words) > 2:
            sys.exit(f"{LOCK.name}:{number}: expected `group:artifact:version sha256`: {line}")
        jars.append(Jar(parts[0], parts[1], parts[2], words[1] if len(words) == 2 else ""))
    return jars


def write_lock(jars: list[Jar]) -> None:
    """Put each jar's sha256 on its line and leave comments and order as they are."""
    digests = {f"{jar.group}:{jar.artifact}:{jar.version}": jar.sha256 for jar in jars}
    lines = []
    for line in LOCK.read_text().splitlines():
        words = line.split()
        known = words and words[0] in digests
        lines.append(f"{words[0]} {digests[words[0]]}" if known else line)
    LOCK.write_text("\n".join(lines) + "\n")


def ivy_module(jars: list[Jar]) -> str:
    wanted = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f' rev={quoteattr(jar.version)} transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="sluice" module="jars"/>\n'
        f"<dependencies>\n{wanted}\n</dependencies></ivy-module>\n"
    )


def ivy_command(module: Path, into: Path) -> list[str]:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        sys.exit("pyspark is not installed: run this with .venv/bin/python, after `make setup`")
    client = next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    command = [java, "-jar", str(client), "-warn", "-ivy", str(module)]
    command += ["-retrieve", str(into / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    return command


def fetch(jars: list[Jar], into: Path) -> None:
    module = into / "ivy.xml"
    module.write_text(ivy_module(jars))
    run = subprocess.run(ivy_command(module, into), capture_output=True, text=True, check=False)
    absent = [jar.file.name for jar in jars if not (into / jar.file.name).is_file()]
    if run.returncode or absent:
        sys.stderr.write(run.stdout + run.stderr)
        sys.exit(f"Could not fetch: {', '.join(absent) or 'see above'}. Is the network reachable?")


def main() -> None:
    update = sys.argv[1:] == ["--update"]
    jars = read_lock()
    JARS.mkdir(exist_ok=True)
    missing = jars if update else [jar for jar in jars if not jar.intact]
    if missing:
        print(f"fetching {len(missing)} jars", flush=True)
        with tempfile.TemporaryDirectory(dir=JARS) as folder:
            into = Path(folder)
            fetch(missing, into)
            fetched = [replace(jar, sha256=sha256(into / jar.file.name)) for jar in missing]
            if update:
                write_lock(fetched)
            elif wrong := [new for old, new in zip(missing, fetched, strict=True) if old != new]:
                told = ", ".join(f"{jar.file.name} has {jar.sha256}" for jar in wrong)
                sys.exit(f"sha256 differs from {LOCK.name}: {told}. Nothing was installed.")
            for jar in missing:
                shutil.move(into / jar.file.name, jar.file)
    names = {jar.file.name for jar in jars}
    for stray in JARS.glob("*.jar"):
        if stray.name not in names:
            stray.unlink()
    print(f"{len(jars)} jars in {JARS.name}/ match {LOCK.name}")


if __name__ == "__main__":
    main()
