"""Entry point of the driver: load one batch into branches.

Exit codes: 0 done, 1 stop, 2 configuration, 75 try again.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sluice.config.project import load_sound
from spark_jobs.session import open_session


def main(arguments: list[str] | None = None) -> int:
    """Run one attempt; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Load one batch into branches")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--publisher", default="", help="who waits to publish, if it is known")
    given = parser.parse_args(arguments)
    with ThreadPoolExecutor() as pool:
        project = pool.submit(load_sound, given.project)
        session = pool.submit(lambda: open_session(project.result(), f"sluice {given.manifest}"))
        # The JVM starts the session meanwhile, which takes as long as these imports.
        from spark_jobs.driver import drive
        from spark_jobs.failures import exit_code

        return exit_code(
            lambda: drive(project.result(), given.manifest, session.result, given.publisher)
        )


if __name__ == "__main__":
    sys.exit(main())
