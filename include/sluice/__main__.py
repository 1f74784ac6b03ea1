"""The command `sluice`, which can be stopped before what it needs is imported: that takes a
second."""

from __future__ import annotations

import sys


def main() -> None:
    """Import the command line and run it."""
    try:
        from sluice.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)  # as a shell reports SIGINT; the name is not imported here


if __name__ == "__main__":
    main()
